package fingerprint

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// guessMHz is for hosts that do not tell their frequency.
const guessMHz = 1000

func probeCPU(_ context.Context, c *Config, n *api.Node) error {
	b, err := os.ReadFile("/proc/cpuinfo")
	info := parseCPU(string(b))
	if info.cores == 0 {
		info.cores = runtime.NumCPU()
	}
	if mhz := maxFrequency(); mhz > 0 {
		info.mhz = mhz
	}
	if info.mhz == 0 {
		info.mhz = guessMHz
	}
	total := info.mhz * info.cores
	if c.CPUTotalCompute > 0 {
		total = c.CPUTotalCompute
	}
	usable := max(total-int(c.Reserved.Cpu.CpuShares), 0)
	a := n.Attributes
	if info.model != "" {
		a["cpu.modelname"] = info.model
	}
	a["cpu.frequency"] = strconv.Itoa(info.mhz)
	a["cpu.numcores"] = strconv.Itoa(info.cores)
	a["cpu.reservablecores"] = strconv.Itoa(info.cores)
	a["cpu.totalcompute"] = strconv.Itoa(total)
	a["cpu.usablecompute"] = strconv.Itoa(usable)
	n.NodeResources.Cpu = api.NodeCpuResources{CpuShares: int64(total), TotalCpuCores: uint16(info.cores)}
	for i := range info.cores {
		n.NodeResources.Cpu.ReservableCpuCores = append(n.NodeResources.Cpu.ReservableCpuCores, uint16(i))
	}
	if err != nil {
		return fmt.Errorf("read cpuinfo: %w", err)
	}
	return nil
}

type cpuInfo struct {
	cores, mhz int
	model      string
}

func parseCPU(text string) cpuInfo {
	var out cpuInfo
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "processor":
			out.cores++
		case "model name":
			out.model = value
		case "cpu MHz":
			if f, err := strconv.ParseFloat(value, 64); err == nil && f < 1e6 {
				out.mhz = max(out.mhz, int(f+0.5))
			}
		}
	}
	return out
}

// maxFrequency is the rated speed in MHz; the one in cpuinfo changes with the load.
func maxFrequency() int {
	for _, file := range []string{"base_frequency", "cpuinfo_max_freq"} {
		b, err := os.ReadFile("/sys/devices/system/cpu/cpu0/cpufreq/" + file)
		if err != nil {
			continue
		}
		if khz, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			return khz / 1000
		}
	}
	return 0
}
