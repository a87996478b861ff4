package devices

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/device"
	"github.com/open-nomad/open-nomad/plugins/device/protocol"
)

const (
	// pluginWait bounds the wait of a reservation for a plugin, which may start, or start again.
	pluginWait = 30 * time.Second
	// userWait bounds the wait for the former user of a device.
	userWait = 2 * time.Minute
)

// keys lists devices.
func keys(list []*api.AllocatedDeviceResource) (out []key) {
	for _, d := range list {
		if d == nil {
			continue
		}
		for _, id := range d.DeviceIDs {
			out = append(out, key{group{d.Vendor, d.Type, d.Name}, id})
		}
	}
	return out
}

// Reserve returns what a task needs to use its devices, and notes the task as their user until [Manager.Release]. It waits for
// plugins that start, and for former users that still run. An error of class fault.Unavailable may be gone later; another one
// means that the task cannot have its devices.
func (m *Manager) Reserve(ctx context.Context, user string, list []*api.AllocatedDeviceResource) (*device.Reservation, error) {
	all := keys(list)
	if err := m.take(ctx, user, all); err != nil {
		return nil, err
	}
	r, err := m.reserve(ctx, all)
	if err != nil {
		m.Release(user)
	}
	return r, err
}

// Hold notes a task that runs already as the user of its devices.
func (m *Manager) Hold(user string, list []*api.AllocatedDeviceResource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range keys(list) {
		m.users[k] = user
	}
}

// Release notes that a task uses no device any more.
func (m *Manager) Release(user string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, u := range m.users {
		if u == user {
			delete(m.users, k)
		}
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

// take notes the user of devices, all at once, when they have no other user any more.
func (m *Manager) take(ctx context.Context, user string, all []key) error {
	deadline := time.NewTimer(userWait)
	defer deadline.Stop()
	for {
		m.mu.Lock()
		changed := m.changed
		taken := slices.IndexFunc(all, func(k key) bool { u := m.users[k]; return u != "" && u != user })
		other := ""
		if taken < 0 {
			for _, k := range all {
				m.users[k] = user
			}
		} else {
			other = m.users[all[taken]]
		}
		m.mu.Unlock()
		if taken < 0 {
			return nil
		}
		select {
		case <-changed:
		case <-deadline.C:
			return fault.New(fault.Unavailable, "device %s is still used by task %s", all[taken], other)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// call is what one process is asked for.
type call struct {
	instance *instance
	client   protocol.DeviceClient
	running  context.Context
	ids      []string
}

// reserve asks the plugins, each once.
func (m *Manager) reserve(ctx context.Context, all []key) (*device.Reservation, error) {
	calls, err := m.calls(ctx, all)
	if err != nil {
		return nil, err
	}
	out := &device.Reservation{Envs: map[string]string{}}
	for _, c := range calls {
		r, err := c.instance.reserve(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("reserve devices: %w", err)
		}
		if err := checkReservation(r); err != nil {
			return nil, fmt.Errorf("reserve devices: device plugin %s: %w", c.instance.conf.Name, err)
		}
		for name, value := range r.Envs {
			if old, set := out.Envs[name]; set && old != value {
				return nil, fault.New(fault.Conflict, "reserve devices: two device plugins set the variable %s", name)
			}
			out.Envs[name] = value
		}
		out.Mounts, out.Devices = append(out.Mounts, r.Mounts...), append(out.Devices, r.Devices...)
	}
	return out, nil
}

// calls finds the processes for devices. It waits for those that do not run.
func (m *Manager) calls(ctx context.Context, all []key) (out []*call, err error) {
	deadline := time.NewTimer(pluginWait)
	defer deadline.Stop()
	for {
		m.mu.Lock()
		changed := m.changed
		out, err = m.find(all)
		m.mu.Unlock()
		if err == nil || !errors.Is(err, fault.Unavailable) {
			return out, err
		}
		select {
		case <-changed:
		case <-deadline.C:
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// find finds the processes for devices. The caller holds mu.
func (m *Manager) find(all []key) (out []*call, err error) {
	for _, k := range all {
		reason, _ := m.state(k)
		i := m.owners[k.group]
		switch {
		case reason != "":
			return nil, fault.New(fault.NotFound, "device %s cannot be used: %s", k, reason)
		case i == nil:
			return nil, fault.New(fault.Unavailable, "device %s: no device plugin has reported it yet", k)
		case i.live == nil || i.running.Err() != nil:
			return nil, fault.New(fault.Unavailable, "device %s: %s", k, i.why())
		}
		at := slices.IndexFunc(out, func(c *call) bool { return c.instance == i })
		if at < 0 {
			at, out = len(out), append(out, &call{instance: i, client: i.live, running: i.running})
		}
		out[at].ids = append(out[at].ids, k.id)
	}
	return out, nil
}

func (i *instance) why() string {
	if i.problem == "" {
		return "device plugin " + i.conf.Name + " does not run yet"
	}
	return i.problem
}

// state returns why a device is lost, and since when; the reason is empty for one that is not, and for one whose plugin is
// away. The caller holds mu.
func (m *Manager) state(k key) (reason string, since time.Time) {
	i := m.owners[k.group]
	if i == nil {
		for _, other := range m.all {
			if other.live == nil {
				return "", time.Time{}
			}
		}
		return "no device plugin of this node has devices " + k.group.String(), m.settled
	}
	if i.live == nil {
		return "", time.Time{}
	}
	if l, lost := i.lost[k]; lost {
		return l.reason, l.since
	}
	for _, g := range i.groups {
		if nameOf(g) == k.group && slices.ContainsFunc(g.Instances, func(d *api.NodeDevice) bool { return d.ID == k.id }) {
			return "", time.Time{}
		}
	}
	l := loss{"its plugin does not find it", time.Now()} // it was lost while no agent ran
	i.lost[k] = l
	return l.reason, l.since
}

// Lost waits until a device of a task is lost for longer than the grace, and returns why. The reason is empty when ctx ends
// first.
func (m *Manager) Lost(ctx context.Context, list []*api.AllocatedDeviceResource) string {
	all := keys(list)
	for {
		var again <-chan time.Time
		m.mu.Lock()
		changed := m.changed
		for _, k := range all {
			reason, since := m.state(k)
			if reason == "" {
				continue
			}
			left := m.conf.Grace - time.Since(since)
			if left <= 0 {
				m.mu.Unlock()
				return fmt.Sprintf("device %s is lost: %s", k, reason)
			}
			if again == nil {
				again = time.After(left)
			}
		}
		m.mu.Unlock()
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
			return ""
		}
	}
}
