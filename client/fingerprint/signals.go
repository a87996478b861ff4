package fingerprint

import (
	"context"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

func probeSignals(_ context.Context, _ *Config, n *api.Node) error {
	n.Attributes["os.signals"] = strings.Join(driver.SignalNames(), ",")
	return nil
}
