package devices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/retry"
	"github.com/open-nomad/open-nomad/plugins/device"
	"github.com/open-nomad/open-nomad/plugins/device/protocol"
	"github.com/open-nomad/open-nomad/plugins/program"
	"github.com/open-nomad/open-nomad/plugins/program/schema"
)

const (
	// changePause is the shortest time between two changes of the devices of a plugin.
	changePause = time.Second
	// statsMin and statsMax bound the pause after statistics that failed.
	statsMin, statsMax = 5 * time.Second, 5 * time.Minute
)

// instance runs one plugin. Its fields below log are guarded by the manager's mu.
type instance struct {
	m    *Manager
	conf Plugin
	log  hclog.Logger

	// live is the process that gets calls, running is its context; nil while the plugin is away.
	live    protocol.DeviceClient
	running context.Context
	// problem is why the plugin is away; empty before the first report and while it runs. recorded is the last one in an event
	// as an event.
	problem, recorded string
	reported          bool
	groups            []*api.NodeDeviceResource
	lost              map[key]loss
	stats             []*api.DeviceGroupStats
}

// loss is a device that a running plugin reports as unhealthy, or leaves out.
type loss struct {
	reason string
	since  time.Time
}

func (i *instance) run(ctx context.Context) {
	p := &program.Program{Kind: protocol.Kind, Path: i.conf.Path, Args: i.conf.Args, StateDir: i.conf.StateDir, Timeout: i.conf.Timeout, Log: i.log}
	p.Keep(ctx, i.attend, i.away)
}

// away records that the plugin does not run as it should.
func (i *instance) away(why error) {
	i.m.change(func() (events []*api.NodeEvent) {
		i.live, i.running, i.problem, i.stats = nil, nil, fmt.Sprintf("device plugin %s: %v", i.conf.Name, why), nil
		if i.problem != i.recorded {
			i.recorded = i.problem
			events = append(events, event(i.problem, map[string]string{"plugin": i.conf.Name}))
		}
		i.m.arrived(i)
		return events
	})
}

// attend uses one process until it does not follow the protocol.
func (i *instance) attend(ctx context.Context, conn program.Conn) error {
	client := protocol.NewDeviceClient(conn)
	if err := i.introduce(ctx, client); err != nil {
		return err
	}
	measuring := false
	open := func(ctx context.Context) (program.Receiver[*protocol.FingerprintResponse], error) {
		return client.Fingerprint(ctx, &protocol.FingerprintRequest{})
	}
	return program.Follow(ctx, i.conf.Timeout, open, func(r *protocol.FingerprintResponse) error {
		groups := protocol.ToGroups(r.GetGroups())
		if err := check(groups); err != nil {
			return fmt.Errorf("it reports devices that it must not: %w", err)
		}
		changed, err := i.report(ctx, client, groups)
		if err != nil {
			return err
		}
		if !measuring {
			measuring = true
			go i.measure(ctx, client)
		} else if changed {
			retry.Sleep(ctx, changePause)
		}
		return nil
	})
}

// introduce reads what the process reports about itself, and configures it.
func (i *instance) introduce(ctx context.Context, client protocol.DeviceClient) error {
	ctx, cancel := context.WithTimeout(ctx, i.conf.Timeout)
	defer cancel()
	info, err := client.Info(ctx, &protocol.InfoRequest{})
	if err != nil {
		return fmt.Errorf("call Info: %w", program.FromStatus(ctx, err))
	}
	if info.GetName() != i.conf.Name {
		return fault.New(fault.Invalid, "it is the device plugin %.64q: name the executable %s%.64s", info.GetName(), protocol.Kind.Prefix, info.GetName())
	}
	if err := schema.Check(info.GetConfig()); err != nil {
		return err
	}
	config, err := schema.Decode(i.conf.Name, info.GetConfig(), i.conf.Config)
	if err != nil {
		return fmt.Errorf(`block plugin %q of the agent: %w`, filepath.Base(i.conf.Path), err)
	}
	encoded, err := json.Marshal(config)
	if err != nil {
		return err
	}
	if _, err := client.Configure(ctx, &protocol.ConfigureRequest{Config: encoded, StateDir: i.conf.StateDir}); err != nil {
		return fmt.Errorf("call Configure: %w", program.FromStatus(ctx, err))
	}
	return nil
}

// report takes over a report of a running process, and returns whether it changes anything.
func (i *instance) report(ctx context.Context, client protocol.DeviceClient, groups []*api.NodeDeviceResource) (changed bool, err error) {
	i.m.change(func() (events []*api.NodeEvent) {
		for _, g := range groups {
			if o := i.m.owners[nameOf(g)]; o != nil && o != i && o.has(nameOf(g)) {
				err = fault.New(fault.Conflict, "it reports devices %s, which are those of device plugin %s", nameOf(g), o.conf.Name)
				return nil
			}
		}
		if i.problem != "" {
			events = append(events, event(fmt.Sprintf("device plugin %s runs again", i.conf.Name), map[string]string{"plugin": i.conf.Name}))
			i.log.Info("device plugin runs again")
		}
		now := map[key]string{} // why it cannot be used; empty when it can
		for _, g := range groups {
			i.m.owners[nameOf(g)] = i
			for _, d := range g.Instances {
				k := key{nameOf(g), d.ID}
				if now[k] = ""; !d.Healthy {
					if now[k] = d.HealthDescription; now[k] == "" {
						now[k] = "its plugin reports it unhealthy"
					}
				}
			}
		}
		fresh := map[key]string{}
		note := func(k key, why string) {
			l, known := i.lost[k]
			if !known {
				l.since, fresh[k] = time.Now(), why
			}
			l.reason = why
			i.lost[k] = l
		}
		for _, g := range i.groups {
			for _, d := range g.Instances {
				k := key{nameOf(g), d.ID}
				if _, there := now[k]; !there {
					note(k, "its plugin does not find it any more")
				}
			}
		}
		for k, why := range now {
			if why == "" {
				delete(i.lost, k)
			} else {
				note(k, why)
			}
		}
		if len(fresh) > 0 {
			e := lossesEvent(i.conf.Name, fresh)
			i.log.Warn("devices are lost", "reason", e.Message)
			events = append(events, e)
		}
		i.prune(now)
		changed = len(fresh) > 0 || !same(i.groups, groups)
		i.groups, i.live, i.running, i.problem, i.recorded = groups, client, ctx, "", ""
		i.m.arrived(i)
		i.m.settle()
		return events
	})
	return changed, err
}

// has reports whether the last report had a group. The caller holds mu.
func (i *instance) has(name group) bool {
	return slices.ContainsFunc(i.groups, func(g *api.NodeDeviceResource) bool { return nameOf(g) == name })
}

// prune removes lost devices that no task uses and that the plugin does not report. The caller holds mu.
func (i *instance) prune(now map[key]string) {
	for k := range i.lost {
		if _, there := now[k]; !there && len(i.lost) > instancesMax && i.m.users[k] == "" {
			delete(i.lost, k)
		}
	}
}

// settle notes that all plugins run. The caller holds mu.
func (m *Manager) settle() {
	for _, i := range m.all {
		if i.live == nil {
			return
		}
	}
	if m.settled.IsZero() {
		m.settled = time.Now()
	}
}

// measure keeps the newest statistics of a process.
func (i *instance) measure(ctx context.Context, client protocol.DeviceClient) {
	pauses := retry.Between(statsMin, statsMax)
	for {
		err := i.receiveStats(ctx, client, pauses.Reset)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, fault.Unimplemented) {
			i.log.Debug("device plugin has no statistics")
			return
		}
		i.m.mu.Lock()
		i.stats = nil
		i.m.mu.Unlock()
		i.log.Warn("statistics of devices", "error", err)
		if !pauses.Wait(ctx) {
			return
		}
	}
}

func (i *instance) receiveStats(ctx context.Context, client protocol.DeviceClient, good func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.Stats(ctx, &protocol.StatsRequest{Interval: int64(i.m.conf.StatsInterval)})
	for err == nil {
		var r *protocol.StatsResponse
		if r, err = stream.Recv(); err != nil {
			break
		}
		var stats []*api.DeviceGroupStats
		if stats, err = protocol.ToStats(r.GetGroups()); err != nil {
			return err
		}
		good()
		i.m.mu.Lock()
		if i.running != nil && i.running.Err() == nil {
			i.stats = i.known(stats)
		}
		i.m.mu.Unlock()
		program.Pause(ctx)
	}
	return program.FromStatus(ctx, err)
}

// known leaves out statistics of what the plugin does not report as devices. The caller holds mu.
func (i *instance) known(stats []*api.DeviceGroupStats) (out []*api.DeviceGroupStats) {
	for _, g := range i.groups {
		for _, s := range stats {
			if s.Vendor != g.Vendor || s.Type != g.Type || s.Name != g.Name {
				continue
			}
			own := &api.DeviceGroupStats{Vendor: g.Vendor, Type: g.Type, Name: g.Name, InstanceStats: map[string]*api.DeviceStats{}}
			for _, d := range g.Instances {
				if v := s.InstanceStats[d.ID]; v != nil {
					own.InstanceStats[d.ID] = v
				}
			}
			out = append(out, own)
			break
		}
	}
	return out
}

// reserve calls the process.
func (i *instance) reserve(ctx context.Context, c *call) (*device.Reservation, error) {
	ctx, cancel := context.WithTimeout(ctx, i.conf.Timeout)
	defer cancel()
	defer context.AfterFunc(c.running, cancel)()
	r, err := c.client.Reserve(ctx, &protocol.ReserveRequest{Ids: c.ids})
	switch {
	case err == nil:
		return protocol.ToReservation(r), nil
	case c.running.Err() != nil:
		return nil, fault.New(fault.Unavailable, "device plugin %s ended during the reservation", i.conf.Name)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fault.New(fault.Unavailable, "device plugin %s has not answered the reservation within %v", i.conf.Name, i.conf.Timeout)
	}
	return nil, fmt.Errorf("device plugin %s: %w", i.conf.Name, program.FromStatus(ctx, err))
}
