package fingerprint

import (
	"context"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
)

func probeMemory(_ context.Context, c *Config, n *api.Node) error {
	total := uint64(c.MemoryTotalMB) << 20
	if total == 0 {
		var info unix.Sysinfo_t
		if err := unix.Sysinfo(&info); err != nil {
			return fmt.Errorf("ask for the memory: %w", err)
		}
		total = uint64(info.Totalram) * uint64(info.Unit)
	}
	n.Attributes["memory.totalbytes"] = strconv.FormatUint(total, 10)
	n.NodeResources.Memory.MemoryMB = int64(total >> 20)
	return nil
}
