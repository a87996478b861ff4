package fingerprint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"

	"github.com/shirou/gopsutil/v4/cpu"

	"github.com/open-nomad/open-nomad/api"
)

// fallbackMHz is the speed assumed for hosts that do not report a frequency.
const fallbackMHz = 1000

func probeCPU(ctx context.Context, c *Config, n *api.Node) error {
	cores, err := cpu.InfoWithContext(ctx)
	if err != nil {
		err = fmt.Errorf("read the processors: %w", err)
	}
	var reported float64
	for _, core := range cores {
		if core.ModelName != "" {
			n.Attributes["cpu.modelname"] = core.ModelName
		}
		reported = max(reported, core.Mhz)
	}
	// The rated speed comes first: the reported one can change with the load.
	mhz := cmp.Or(numberIn("/sys/devices/system/cpu/cpu0/cpufreq/base_frequency")/1000, int(reported+0.5), fallbackMHz)
	n.Attributes["cpu.frequency"] = strconv.Itoa(mhz)
	t, topologyErr := readTopology("/sys", mhz)
	if topologyErr != nil {
		t = uniformTopology(max(len(cores), runtime.NumCPU()), mhz)
	}
	withinReach(t)
	return errors.Join(setProcessors(c, n, t), topologyErr, err)
}

// uniformTopology returns the topology assumed for a host of which only the number of cores is known.
func uniformTopology(cores, mhz int) *api.NodeTopology {
	t := &api.NodeTopology{Nodes: []int{0}}
	for id := range cores {
		t.Cores = append(t.Cores, &api.NodeCore{ID: uint16(id), Grade: true, BaseSpeed: uint64(mhz)})
	}
	return t
}
