package fingerprint

import (
	"context"
	"runtime"

	"github.com/open-nomad/open-nomad/api"
)

func probeArch(_ context.Context, _ *Config, n *api.Node) error {
	n.Attributes["cpu.arch"] = runtime.GOARCH
	return nil
}
