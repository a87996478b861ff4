package fingerprint

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

func probeOS(_ context.Context, _ *Config, n *api.Node) error {
	b, err := os.ReadFile("/etc/os-release")
	if os.IsNotExist(err) {
		b, err = os.ReadFile("/usr/lib/os-release")
	}
	if err != nil {
		n.Attributes["os.name"] = "linux"
		return fmt.Errorf("read os-release: %w", err)
	}
	release := parseRelease(string(b))
	name, version := release["ID"], release["VERSION_ID"]
	if name == "debian" {
		if b, err := os.ReadFile("/etc/debian_version"); err == nil && strings.HasPrefix(string(b), version+".") {
			version = strings.TrimSpace(string(b))
		}
	}
	if name == "" {
		name = "linux"
	}
	n.Attributes["os.name"] = name
	if version != "" {
		n.Attributes["os.version"] = version
	}
	return nil
}

// parseRelease reads KEY=value lines, whose values may be quoted.
func parseRelease(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(key, "#") {
			out[key] = strings.Trim(value, `"'`)
		}
	}
	return out
}
