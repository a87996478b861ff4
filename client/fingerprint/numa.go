package fingerprint

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

func probeNUMA(_ context.Context, _ *Config, n *api.Node) error {
	nodes, err := filepath.Glob("/sys/devices/system/node/node[0-9]*")
	if err != nil || len(nodes) == 0 {
		return err
	}
	n.Attributes["numa.node.count"] = strconv.Itoa(len(nodes))
	for _, dir := range nodes {
		b, err := os.ReadFile(filepath.Join(dir, "cpulist"))
		if err != nil {
			return err
		}
		n.Attributes["numa."+filepath.Base(dir)+".cores"] = strings.TrimSpace(string(b))
	}
	return nil
}
