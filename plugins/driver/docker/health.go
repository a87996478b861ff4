package docker

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/engine"
)

// Fingerprint reports whether the engine answers. Until ctx ends, containers of unknown tasks are removed.
func (d *Driver) Fingerprint(ctx context.Context) (<-chan driver.Fingerprint, error) {
	go d.collect(ctx)
	return driver.Fingerprints(ctx, d.health), nil
}

const attribute = "driver." + Name

// healthMax bounds the question whether the engine answers: one that hangs is unhealthy soon.
const healthMax = 10 * time.Second

func (d *Driver) health(ctx context.Context) driver.Fingerprint {
	ctx, cancel := context.WithTimeout(ctx, healthMax)
	defer cancel()
	if d.broken != nil {
		return driver.Fingerprint{Health: driver.Undetected, Description: d.broken.Error(), Attributes: map[string]string{attribute: ""}}
	}
	info, err := d.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		f := driver.Fingerprint{Health: driver.Unhealthy, Description: "Failed to connect to docker daemon"}
		d.mu.Lock()
		defer d.mu.Unlock()
		if !d.seen {
			f.Attributes = map[string]string{attribute: ""}
			if engine.SocketMissing(err) {
				f.Health = driver.Undetected
			}
		}
		return f
	}
	d.mu.Lock()
	d.seen = true
	d.mu.Unlock()
	p := &d.config.Plugin
	f := driver.Fingerprint{Health: driver.Healthy, Description: "Healthy", Attributes: map[string]string{
		attribute: "true", attribute + ".version": info.Info.ServerVersion, attribute + ".os_type": info.Info.OSType,
		attribute + ".runtimes":           strings.Join(slices.Sorted(maps.Keys(info.Info.Runtimes)), ","),
		attribute + ".bridge_ip":          d.bridge(ctx),
		attribute + ".privileged.enabled": yes(p.AllowPrivileged), attribute + ".volumes.enabled": yes(p.Volumes.Enabled),
	}}
	if p.PidsLimit > 0 {
		f.Attributes[attribute+".pids.limit"] = strconv.FormatInt(p.PidsLimit, 10)
	}
	if info.Info.OSType != "linux" {
		f.Health, f.Description = driver.Unhealthy, "the docker engine runs no containers of linux"
	}
	return f
}

// yes is the value of an attribute that is there when something is enabled.
func yes(enabled bool) string {
	if enabled {
		return "true"
	}
	return ""
}

// bridge is the address of the engine's default network; empty when it has none.
func (d *Driver) bridge(ctx context.Context) string {
	found, err := d.engine.NetworkInspect(ctx, "bridge", client.NetworkInspectOptions{})
	if err != nil {
		return ""
	}
	for _, c := range found.Network.IPAM.Config {
		if c.Gateway.IsValid() {
			return c.Gateway.String()
		}
	}
	return ""
}
