package stats

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
)

// Host measures one host. Processor use is that since the measurement before.
type Host struct {
	allocDir string
	mhz      func() int64
	proc     string

	mu   sync.Mutex
	last map[string]ticks
}

// ticks are the counters of one processor.
type ticks struct{ user, system, idle, total float64 }

// New makes a meter; allocDir is the directory whose file system is measured, mhz tells what all processors
// can do together.
func New(allocDir string, mhz func() int64) *Host {
	return &Host{allocDir: allocDir, mhz: mhz, proc: "/proc", last: map[string]ticks{}}
}

// Read measures now.
func (h *Host) Read() (*api.HostStats, error) {
	out := &api.HostStats{Timestamp: time.Now().UnixNano()}
	var err error
	if out.Memory, err = h.memory(); err != nil {
		return nil, err
	}
	if err := h.cpu(out); err != nil {
		return nil, err
	}
	if out.Uptime, err = h.uptime(); err != nil {
		return nil, err
	}
	disk, err := Disk(h.allocDir)
	if err != nil {
		return nil, err
	}
	out.AllocDirStats, out.DiskStats = disk, []*api.HostDiskStats{disk}
	return out, nil
}

// Disk measures the file system that holds the directory.
func Disk(dir string) (*api.HostDiskStats, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return nil, fmt.Errorf("measure file system of %s: %w", dir, err)
	}
	block := uint64(s.Bsize)
	out := &api.HostDiskStats{Mountpoint: dir, Size: s.Blocks * block, Available: s.Bavail * block, Used: (s.Blocks - s.Bfree) * block}
	if usable := out.Used + out.Available; usable > 0 {
		out.UsedPercent = 100 * float64(out.Used) / float64(usable)
	}
	if s.Files > 0 {
		out.InodesUsedPercent = 100 * float64(s.Files-s.Ffree) / float64(s.Files)
	}
	return out, nil
}

func (h *Host) memory() (*api.HostMemoryStats, error) {
	b, err := os.ReadFile(h.proc + "/meminfo")
	if err != nil {
		return nil, fmt.Errorf("read memory use: %w", err)
	}
	out := &api.HostMemoryStats{}
	fields := map[string]*uint64{"MemTotal:": &out.Total, "MemAvailable:": &out.Available, "MemFree:": &out.Free}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 2 || fields[words[0]] == nil {
			continue
		}
		kib, err := strconv.ParseUint(words[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read memory use: %w", err)
		}
		*fields[words[0]] = kib << 10
	}
	out.Used = out.Total - min(out.Total, out.Available)
	return out, nil
}

func (h *Host) cpu(out *api.HostStats) error {
	b, err := os.ReadFile(h.proc + "/stat")
	if err != nil {
		return fmt.Errorf("read processor use: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 8 || !strings.HasPrefix(words[0], "cpu") {
			continue
		}
		now := parseTicks(words[1:])
		before := h.last[words[0]]
		h.last[words[0]] = now
		span := now.total - before.total
		if span <= 0 {
			continue
		}
		use := &api.HostCPUStats{
			CPU: words[0], User: 100 * (now.user - before.user) / span,
			System: 100 * (now.system - before.system) / span, Idle: 100 * (now.idle - before.idle) / span,
		}
		if words[0] == "cpu" {
			out.CPUTicksConsumed = float64(h.mhz()) * (100 - use.Idle) / 100
			continue
		}
		use.TotalPercent = 100 - use.Idle
		out.CPU = append(out.CPU, use)
	}
	for _, use := range out.CPU {
		use.TotalTicks = float64(h.mhz()) / float64(len(out.CPU)) * use.TotalPercent / 100
	}
	return nil
}

// parseTicks reads user, nice, system, idle, iowait, irq, softirq and steal.
func parseTicks(words []string) ticks {
	var v [8]float64
	for i := range min(len(v), len(words)) {
		v[i], _ = strconv.ParseFloat(words[i], 64)
	}
	t := ticks{user: v[0] + v[1], system: v[2] + v[5] + v[6], idle: v[3] + v[4]}
	for _, x := range v {
		t.total += x
	}
	return t
}

func (h *Host) uptime() (uint64, error) {
	b, err := os.ReadFile(h.proc + "/uptime")
	if err != nil {
		return 0, fmt.Errorf("read uptime: %w", err)
	}
	word, _, _ := strings.Cut(string(b), " ")
	seconds, err := strconv.ParseFloat(word, 64)
	if err != nil {
		return 0, fmt.Errorf("read uptime: %w", err)
	}
	return uint64(seconds), nil
}
