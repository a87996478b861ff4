package fingerprint

import (
	"context"
	"errors"
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
	if err != nil {
		err = fmt.Errorf("read cpuinfo: %w", err)
	}
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
	if info.model != "" {
		n.Attributes["cpu.modelname"] = info.model
	}
	n.Attributes["cpu.frequency"] = strconv.Itoa(info.mhz)
	t, topologyErr := readTopology("/sys", info.mhz)
	if topologyErr != nil {
		t = info.topology()
	}
	withinReach(t)
	return errors.Join(setProcessors(c, n, t), topologyErr, err)
}

// topology is what is assumed of a host that tells nothing but the number of its cores.
func (i cpuInfo) topology() *api.NodeTopology {
	t := &api.NodeTopology{Nodes: []int{0}}
	for id := range i.cores {
		t.Cores = append(t.Cores, &api.NodeCore{ID: uint16(id), Grade: true, BaseSpeed: uint64(i.mhz)})
	}
	return t
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
