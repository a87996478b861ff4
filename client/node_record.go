package client

import (
	"cmp"
	"context"
	"maps"
	"os"
	"sync"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/dirquota"
	"github.com/open-nomad/open-nomad/client/fingerprint"
	"github.com/open-nomad/open-nomad/client/hostvolumes"
	"github.com/open-nomad/open-nomad/plugins/driver/limits"
)

// record is the node as it is now. Every change makes a new [api.Node]; old ones stay as they were.
type record struct {
	mu     sync.RWMutex
	node   *api.Node
	events []*api.NodeEvent
	// changed is signalled when the node has changed, told when the next heartbeat is due at once.
	changed, told chan struct{}
	// why is the trouble because of which all drivers are shown unhealthy; masked are the healthy ones.
	why    string
	masked map[string]*api.DriverInfo
}

func newRecord(n *api.Node) *record {
	return &record{node: n, changed: make(chan struct{}, 1), told: make(chan struct{}, 1)}
}

// present returns the node. It is read-only.
func (r *record) present() *api.Node {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.node
}

// update changes a copy of the node, whose maps that change are copied as well.
func (r *record) update(edit func(*api.Node), events ...*api.NodeEvent) {
	r.mu.Lock()
	n := *r.node
	n.Attributes, n.Drivers = maps.Clone(n.Attributes), maps.Clone(n.Drivers)
	maps.Copy(n.Drivers, r.masked)
	edit(&n)
	r.mask(&n)
	r.node = &n
	r.events = append(r.events, events...)
	r.mu.Unlock()
	r.wake()
}

// tell keeps an event for the servers.
func (r *record) tell(e *api.NodeEvent) {
	r.mu.Lock()
	r.events = append(r.events, e)
	r.mu.Unlock()
	r.beatSoon()
}

// beatSoon requests a heartbeat at once.
func (r *record) beatSoon() {
	select {
	case r.told <- struct{}{}:
	default:
	}
}

// trouble shows all drivers unhealthy for a reason, or, when it is empty, as they are.
func (r *record) trouble(why string, e *api.NodeEvent) {
	r.mu.Lock()
	r.why = why
	r.mu.Unlock()
	r.update(func(*api.Node) {}, e)
}

// mask replaces the healthy drivers of a node in trouble. The caller holds mu.
func (r *record) mask(n *api.Node) {
	r.masked = nil
	if r.why == "" {
		return
	}
	r.masked = map[string]*api.DriverInfo{}
	for name, d := range n.Drivers {
		if d == nil || !d.Healthy {
			continue
		}
		shown := *d
		shown.Healthy, shown.HealthDescription = false, r.why
		r.masked[name], n.Drivers[name] = d, &shown
	}
}

func (r *record) wake() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// takeEvents returns the events that the servers have not heard; putBack returns them after a failure.
func (r *record) takeEvents() []*api.NodeEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.events
	r.events = nil
	return out
}

func (r *record) putBack(events []*api.NodeEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(events, r.events...)
}

// fill asks the host what it is.
func (c *Client) fill(ctx context.Context) error {
	n := &api.Node{
		ID: c.id, SecretID: c.secret, Name: c.conf.Name, Datacenter: c.conf.Datacenter, NodeClass: c.conf.NodeClass, NodePool: c.conf.NodePool,
		HTTPAddr: c.conf.HTTPAddr, TLSEnabled: c.conf.HTTPS, Status: api.NodeStatusReady, NodeMaxAllocs: c.conf.NodeMaxAllocs,
		Attributes: map[string]string{}, Drivers: map[string]*api.DriverInfo{}, HostVolumes: c.conf.HostVolumes,
		CgroupParent: c.conf.RawExec.CgroupParent,
	}
	if c.conf.DefaultIneligible {
		n.SchedulingEligibility = api.NodeSchedulingIneligible
	}
	n.CgroupParent = cmp.Or(n.CgroupParent, limits.DefaultParent)
	if err := fingerprint.Run(ctx, fingerprint.Config{
		DataDir: c.conf.AllocDir, Version: c.conf.Version, Revision: c.conf.Revision, AdvertiseAddress: c.conf.HTTPAddr,
		NetworkInterface: c.conf.NetworkInterface, CPUTotalCompute: c.conf.CPUTotalCompute, MemoryTotalMB: c.conf.MemoryTotalMB,
		DiskTotalMB: c.conf.DiskTotalMB, Reserved: c.conf.Reserved, MinDynamicPort: c.conf.MinDynamicPort, MaxDynamicPort: c.conf.MaxDynamicPort,
		ReservedCores: c.conf.ReservedCores, ReservableCores: c.conf.ReservableCores, HostNetworks: c.conf.HostNetworks,
		CgroupParent: n.CgroupParent, SecretsDir: c.conf.secretsDir(), Wanted: c.conf.probed, Log: c.log,
	}, n); err != nil {
		return err
	}
	c.networks.Fingerprint(n)
	c.networks.CNIFingerprint(ctx)(n)
	maps.Copy(n.Attributes, c.hostVolumes.Fingerprint(ctx))
	if c.quota != dirquota.None {
		n.Attributes[attributeQuota] = string(c.quota)
	}
	if n.Attributes["unique.hostname"] == "" {
		n.Attributes["unique.hostname"], _ = os.Hostname()
	}
	c.meta.Lock()
	n.Meta = c.nodeMeta()
	c.meta.Unlock()
	c.node.mu.Lock()
	c.node.node = n
	c.node.mu.Unlock()
	return nil
}

// Reload looks for the CNI networks and plugins of the host, and for the host volume plugins, again.
func (c *Client) Reload(ctx context.Context) {
	c.node.update(c.networks.CNIFingerprint(ctx))
	plugins := c.hostVolumes.Fingerprint(ctx)
	c.node.update(func(n *api.Node) {
		if n.Attributes == nil {
			return // the start has not read the node yet, and finds them itself
		}
		maps.DeleteFunc(n.Attributes, func(key, _ string) bool { return hostvolumes.IsAttribute(key) })
		maps.Copy(n.Attributes, plugins)
	})
}

// driverChanged takes over news about a driver.
func (c *Client) driverChanged(d fingerprint.DriverChange) {
	var events []*api.NodeEvent
	if d.Event != nil {
		events = append(events, d.Event)
	}
	c.node.update(func(n *api.Node) {
		n.Drivers[d.Name] = d.Info
		for k, v := range d.Attributes {
			if v == "" {
				delete(n.Attributes, k)
			} else {
				n.Attributes[k] = v
			}
		}
	}, events...)
}

// hostVolumesChanged takes over the host volumes that the node offers.
func (c *Client) hostVolumesChanged(all map[string]*api.HostVolumeInfo) {
	c.node.update(func(n *api.Node) { n.HostVolumes = all })
}

// devicesChanged takes over the groups of devices that the node has.
func (c *Client) devicesChanged(groups []*api.NodeDeviceResource) {
	c.node.update(func(n *api.Node) {
		var r api.NodeResources
		if n.NodeResources != nil {
			r = *n.NodeResources
		}
		r.Devices = groups
		n.NodeResources = &r
	})
}

// pluginsChanged takes over news about CSI plugins.
func (c *Client) pluginsChanged(controllers, nodes map[string]*api.CSIInfo) {
	c.node.update(func(n *api.Node) { n.CSIControllerPlugins, n.CSINodePlugins = controllers, nodes })
}
