package fingerprint

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

func probeBoot(_ context.Context, _ *Config, n *api.Node) error {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return fmt.Errorf("read the boot id: %w", err)
	}
	n.BootID = strings.TrimSpace(string(b))
	return nil
}
