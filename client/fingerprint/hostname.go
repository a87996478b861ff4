package fingerprint

import (
	"context"
	"fmt"
	"os"

	"github.com/shirou/gopsutil/v4/host"

	"github.com/open-nomad/open-nomad/api"
)

func probeHostname(ctx context.Context, _ *Config, n *api.Node) error {
	if id, err := host.HostIDWithContext(ctx); err == nil && id != "" {
		n.Attributes["unique.host_id"] = id
	}
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("read the hostname: %w", err)
	}
	n.Attributes["unique.hostname"] = name
	if n.Name == "" {
		n.Name = name
	}
	return nil
}
