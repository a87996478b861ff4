package fingerprint

import (
	"context"
	"fmt"
	"strconv"

	"github.com/shirou/gopsutil/v4/mem"

	"github.com/open-nomad/open-nomad/api"
)

func probeMemory(ctx context.Context, c *Config, n *api.Node) error {
	total := uint64(c.MemoryTotalMB) << 20
	if total == 0 {
		memory, err := mem.VirtualMemoryWithContext(ctx)
		if err != nil {
			return fmt.Errorf("read the size of the memory: %w", err)
		}
		total = memory.Total
	}
	n.Attributes["memory.totalbytes"] = strconv.FormatUint(total, 10)
	n.NodeResources.Memory.MemoryMB = int64(total >> 20)
	return nil
}
