package fingerprint

import (
	"cmp"
	"context"
	"fmt"

	"github.com/shirou/gopsutil/v4/host"

	"github.com/open-nomad/open-nomad/api"
)

func probeOS(ctx context.Context, _ *Config, n *api.Node) error {
	name, _, version, err := host.PlatformInformationWithContext(ctx)
	n.Attributes["os.name"] = cmp.Or(name, "linux")
	if err != nil {
		return fmt.Errorf("read the name and version of the operating system: %w", err)
	}
	if version != "" {
		n.Attributes["os.version"] = version
	}
	return nil
}
