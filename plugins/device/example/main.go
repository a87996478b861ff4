// Program nomad-device-file is an example of a device plugin: each file of a directory is a device.
//
//	plugin "nomad-device-file" {
//	  config {
//	    dir = "/var/lib/demo-devices"
//	  }
//	}
//
// Build it into the plugin directory of an agent:
//
//	go build -o /opt/nomad/data/plugins/nomad-device-file ./plugins/device/example
//
// A file that disappears is a lost device; one whose content begins with "bad" is unhealthy, and the rest of the content says
// why. A task gets the ids in the variable DEMO_DEVICES, the directory at /demo-devices, and the device node /dev/demo, which is
// the one named by node.
package main

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/device"
	"github.com/open-nomad/open-nomad/plugins/device/serve"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

const name = "file"

// config is the config of the block plugin "nomad-device-file" of the agent.
type config struct {
	Dir string `config:"dir,required"`
	// Model is the name of the group of devices; default demo.
	Model string `config:"model"`
	// Every is the time between two looks at the directory; default 1 s.
	Every time.Duration `config:"every"`
	// Node is the device node of the host that tasks get; default /dev/zero.
	Node string `config:"node"`
}

func main() {
	serve.Serve(serve.Plugin{Name: name, Version: "0.1.0", Config: config{}, New: newPlugin})
}

func newPlugin(block map[string]any, _ string, _ hclog.Logger) (device.Plugin, error) {
	var c config
	if err := driver.DecodeConfig(name, block, &c); err != nil {
		return nil, err
	}
	c.Model, c.Every, c.Node = cmp.Or(c.Model, "demo"), cmp.Or(c.Every, time.Second), cmp.Or(c.Node, "/dev/zero")
	return &files{c}, nil
}

// files finds devices in a directory.
type files struct{ config }

// Fingerprint reports the devices, again after each change and at least every [device.FingerprintPeriod].
func (f *files) Fingerprint(ctx context.Context) (<-chan device.Fingerprint, error) {
	return repeat(ctx, f.Every, func(last *device.Fingerprint, since time.Duration) (device.Fingerprint, bool) {
		groups, err := f.groups()
		now := device.Fingerprint{Groups: groups, Err: err}
		return now, last == nil || since >= device.FingerprintPeriod || !reflect.DeepEqual(*last, now)
	}), nil
}

// Stats measures the devices once per interval.
func (f *files) Stats(ctx context.Context, interval time.Duration) (<-chan device.Stats, error) {
	return repeat(ctx, interval, func(*device.Stats, time.Duration) (device.Stats, bool) {
		groups, err := f.stats()
		return device.Stats{Groups: groups, Err: err}, true
	}), nil
}

// repeat sends what next returns, at once and then once per interval, unless it reports that nothing is to be sent.
func repeat[T any](ctx context.Context, interval time.Duration, next func(last *T, since time.Duration) (T, bool)) <-chan T {
	ch := make(chan T)
	go func() {
		defer close(ch)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		var last *T
		var sent time.Time
		for {
			if now, send := next(last, time.Since(sent)); send {
				select {
				case ch <- now:
					last, sent = &now, time.Now()
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ch
}

func (f *files) groups() ([]*api.NodeDeviceResource, error) {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return nil, err
	}
	kind, memory := "file", int64(64)
	g := &api.NodeDeviceResource{
		Vendor: "example", Type: "demo", Name: f.Model,
		Attributes: map[string]*api.Attribute{"kind": {StringVal: &kind}, "memory": {IntVal: &memory, Unit: "MiB"}},
	}
	for _, e := range entries {
		i := &api.NodeDevice{ID: e.Name(), Healthy: true}
		content, err := os.ReadFile(filepath.Join(f.Dir, e.Name()))
		if err != nil {
			continue // it has just disappeared
		}
		if why, bad := strings.CutPrefix(string(content), "bad"); bad {
			i.Healthy, i.HealthDescription = false, strings.TrimSpace(why)
		}
		g.Instances = append(g.Instances, i)
	}
	if len(g.Instances) == 0 {
		return nil, nil
	}
	return []*api.NodeDeviceResource{g}, nil
}

// Reserve passes the ids, the directory and the device node to the task.
func (f *files) Reserve(_ context.Context, ids []string) (*device.Reservation, error) {
	groups, err := f.groups()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if len(groups) == 0 || !slices.ContainsFunc(groups[0].Instances, func(i *api.NodeDevice) bool { return i.ID == id }) {
			return nil, fault.New(fault.NotFound, "there is no device %q", id)
		}
	}
	return &device.Reservation{
		Envs:    map[string]string{"DEMO_DEVICES": strings.Join(ids, ",")},
		Mounts:  []driver.Mount{{Source: f.Dir, Destination: "/demo-devices", ReadOnly: true}},
		Devices: []driver.Device{{HostPath: f.Node, TaskPath: "/dev/demo", Permissions: "rw"}},
	}, nil
}

func (f *files) stats() ([]*api.DeviceGroupStats, error) {
	groups, err := f.groups()
	if err != nil {
		return nil, err
	}
	var out []*api.DeviceGroupStats
	for _, g := range groups {
		s := &api.DeviceGroupStats{Vendor: g.Vendor, Type: g.Type, Name: g.Name, InstanceStats: map[string]*api.DeviceStats{}}
		for _, i := range g.Instances {
			info, err := os.Stat(filepath.Join(f.Dir, i.ID))
			if err != nil {
				continue
			}
			size, most := info.Size(), int64(64<<20)
			used := &api.StatValue{IntNumeratorVal: &size, IntDenominatorVal: &most, Unit: "byte", Desc: "size of the file"}
			mode := info.Mode().String()
			s.InstanceStats[i.ID] = &api.DeviceStats{
				Summary: used, Timestamp: time.Now().UTC(),
				Stats: &api.StatObject{
					Attributes: map[string]*api.StatValue{"size": used},
					Nested: map[string]*api.StatObject{
						"file": {Attributes: map[string]*api.StatValue{"mode": {StringVal: &mode, Desc: "mode of the file"}}},
					},
				},
			}
		}
		out = append(out, s)
	}
	return out, nil
}
