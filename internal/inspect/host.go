package inspect

import (
	"context"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/host"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

const (
	// hostWait bounds the description of a host: a mount may hang.
	hostWait = 10 * time.Second
	// fileMax bounds the files of a description in bytes.
	fileMax = 64 << 10
)

// shown are the variables of the environment that a description has: others may hold secrets.
var shown = []string{"PATH", "HOME", "USER", "SHELL", "LANG", "LC_ALL", "TZ", "PWD", "TMPDIR", "INVOCATION_ID", "GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "NOMAD_ADDR", "NOMAD_REGION"}

// Host describes the host of the agent. What cannot be read is left out.
func (a *Agent) Host(ctx context.Context) (*api.HostDataResponse, error) {
	if err := a.allowed(); err != nil {
		return nil, err
	}
	if !a.describing.TryLock() {
		return nil, fault.New(fault.Exhausted, "the host of agent %s is being described: try again; a mount of it may hang", a.conf.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, hostWait)
	defer cancel()
	done := make(chan *api.HostData, 1)
	go func() { // ends with the mounts that hang
		defer a.describing.Unlock()
		done <- describe(ctx)
	}()
	select {
	case d := <-done:
		return &api.HostDataResponse{AgentID: a.conf.ID, HostData: d}, nil
	case <-ctx.Done():
		return nil, fault.New(fault.Timeout, "describe the host of agent %s: %w: a mount of it may hang", a.conf.ID, ctx.Err())
	}
}

func describe(ctx context.Context) *api.HostData {
	d := &api.HostData{
		OS: runtime.GOOS + " " + runtime.GOARCH, Network: addresses(), ResolvConf: head("/etc/resolv.conf"), Hosts: head("/etc/hosts"),
		Environment: map[string]string{}, Disk: map[string]api.DiskUsage{},
	}
	if info, err := host.InfoWithContext(ctx); err == nil {
		d.OS += " " + info.Platform + " " + info.PlatformVersion + " kernel " + info.KernelVersion
	}
	for _, name := range shown {
		if v, ok := os.LookupEnv(name); ok {
			d.Environment[name] = v
		}
	}
	mounts, _ := disk.PartitionsWithContext(ctx, false)
	for _, m := range mounts {
		if ctx.Err() != nil {
			break
		}
		if use, err := disk.UsageWithContext(ctx, m.Mountpoint); err == nil {
			d.Disk[m.Mountpoint] = api.DiskUsage{DiskMB: int64(use.Total >> 20), UsedMB: int64(use.Used >> 20)}
		}
	}
	return d
}

// head returns the begin of a file, or nothing.
func head(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	body, _ := io.ReadAll(io.LimitReader(f, fileMax))
	return string(body)
}

func addresses() []map[string]string {
	var out []map[string]string
	interfaces, _ := net.Interfaces()
	for _, i := range interfaces {
		list, _ := i.Addrs()
		for _, addr := range list {
			ip, network, err := net.ParseCIDR(addr.String())
			if err != nil {
				continue
			}
			kind := "IPv6"
			if ip.To4() != nil {
				kind = "IPv4"
			}
			bits, _ := network.Mask.Size()
			out = append(out, map[string]string{
				"interface": i.Name, "string": addr.String(), "address": ip.String(), "host": ip.String(), "type": kind,
				"network": network.IP.String(), "mask_bits": strconv.Itoa(bits), "port": "0",
			})
		}
	}
	return out
}
