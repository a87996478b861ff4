package tasks_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/device"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// fakeDevices records its calls; lost ends Lost.
type fakeDevices struct {
	err  error
	lost chan string

	mu    sync.Mutex
	calls []string
}

func (f *fakeDevices) call(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, text)
}

func (f *fakeDevices) Reserve(_ context.Context, user string, list []*api.AllocatedDeviceResource) (*device.Reservation, error) {
	f.call("reserve " + user + " " + strings.Join(list[0].DeviceIDs, ","))
	if f.err != nil {
		return nil, f.err
	}
	return &device.Reservation{
		Envs: map[string]string{"IDS": "a"}, Mounts: []driver.Mount{{Source: "/lib", Destination: "/lib/gpu", ReadOnly: true}},
		Devices: []driver.Device{{HostPath: "/dev/null", TaskPath: "/dev/x", Permissions: "rw"}},
	}, nil
}

func (f *fakeDevices) Hold(user string, _ []*api.AllocatedDeviceResource) { f.call("hold " + user) }
func (f *fakeDevices) Release(user string)                                { f.call("release " + user) }

func (f *fakeDevices) Lost(ctx context.Context, _ []*api.AllocatedDeviceResource) string {
	select {
	case why := <-f.lost:
		return why
	case <-ctx.Done():
		return ""
	}
}

func setupDevices(t *testing.T) (*bench, *fakeDevices) {
	b := setup(t, api.JobTypeService, &api.Task{Name: "main", Env: map[string]string{"OWN": "${IDS}"}})
	f := &fakeDevices{lost: make(chan string, 1)}
	b.conf.Devices = f
	b.conf.Alloc.AllocatedResources = &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{
		"main": {Devices: []*api.AllocatedDeviceResource{{Vendor: "v", Type: "t", Name: "n", DeviceIDs: []string{"a"}}}},
	}}
	b.renew(t)
	return b, f
}

func TestATaskGetsItsDevicesAndFailsWithThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f := setupDevices(t)
		ctx, leave := context.WithCancel(t.Context())
		wait := b.run(ctx)
		b.until(t, "it runs", running("main"))
		got := b.driver.started[0]
		if got.Env["IDS"] != "a" || got.Env["OWN"] != "a" || len(got.Devices) != 1 || got.Devices[0].TaskPath != "/dev/x" ||
			len(got.Mounts) != 1 || got.Mounts[0].Destination != "/lib/gpu" {
			t.Errorf("task %+v", got)
		}
		leave()
		_ = wait()
		b.renew(t)
		wait = b.run(t.Context())
		synctest.Wait()
		f.lost <- "device v/t/n[a] is lost: no power"
		if err := wait(); err != nil {
			t.Error(err)
		}
		s := b.States()["main"]
		if !s.Failed || !slices.Contains(events(s), "Device Lost") || s.Restarts != 0 {
			t.Errorf("failed %v, events %v, restarts %d", s.Failed, events(s), s.Restarts)
		}
		if want := []string{"reserve a1/main a", "hold a1/main", "release a1/main"}; !slices.Equal(f.calls, want) {
			t.Errorf("calls %q, want %q", f.calls, want)
		}
	})
}

func TestADeviceThatIsGoneBeforeTheStartFailsTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f := setupDevices(t)
		f.err = fault.New(fault.NotFound, "device v/t/n[a] cannot be used: it is gone")
		if err := b.run(t.Context())(); err != nil {
			t.Error(err)
		}
		s := b.States()["main"]
		if !s.Failed || s.Restarts != 0 || !strings.Contains(s.Events[1].DisplayMessage+s.Events[2].DisplayMessage, "it is gone") {
			t.Errorf("failed %v, restarts %d, events %v", s.Failed, s.Restarts, events(s))
		}
	})
}
