package fingerprint

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

func probeHostname(_ context.Context, _ *Config, n *api.Node) error {
	if id := hostID(); id != "" {
		n.Attributes["unique.host_id"] = id
	}
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("ask for the hostname: %w", err)
	}
	n.Attributes["unique.hostname"] = name
	if n.Name == "" {
		n.Name = name
	}
	return nil
}

// hostID is the machine's UUID, or its machine-id written as one.
func hostID() string {
	if b, err := os.ReadFile("/sys/class/dmi/id/product_uuid"); err == nil && len(b) >= 36 {
		return strings.ToLower(strings.TrimSpace(string(b)))
	}
	b, err := os.ReadFile("/etc/machine-id")
	id := strings.TrimSpace(string(b))
	if err != nil || len(id) != 32 {
		return ""
	}
	return strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-")
}
