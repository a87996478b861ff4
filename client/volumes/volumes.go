package volumes

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/client/volumes/journal"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/client/mounthealth"
	"github.com/open-nomad/open-nomad/client/workqueue"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
	"github.com/open-nomad/open-nomad/plugins/csi/owner"
)

// Config is what the service needs.
type Config struct {
	// StateDir is the client's state directory; everything of ours lies in its directory csi.
	StateDir string
	// NodeID returns the id of this node, NodeSecret its secret.
	NodeID     func() string
	NodeSecret func() string
	// Servers carries calls to the servers.
	Servers wire.Caller
	// Journal holds the mounts, Registry the plugins that must be known again after a restart.
	Journal, Registry csiplugins.Bucket
	// Fences holds the newest intents of controller calls; nil keeps them in memory.
	Fences csiplugins.Bucket
	// Updated is called with the whole fingerprint whenever it changed. It must not block.
	Updated func(controllers, nodes map[string]*api.CSIInfo)
	// NodeEvent records an event of the node; may be nil. It must not block.
	NodeEvent func(*api.NodeEvent)
	// PluginWait bounds the wait for a plugin that a claim needs; 0 means 5 minutes.
	PluginWait time.Duration
	// PluginGrace is how long a plugin stays known while its task does not run; 0 means 30 s.
	PluginGrace time.Duration
	// UndoPatience is for how long a plugin must have failed to take a volume down before the node unmounts it
	// itself; 0 means 1 minute.
	UndoPatience time.Duration
	// RetryMax caps the wait between tries; 0 means 1 minute.
	RetryMax time.Duration
	// HealthInterval is how often healthy plugins are probed; 0 means 30 s.
	HealthInterval time.Duration
	// PluginCalls is how many calls of volumes a plugin gets at once; 0 means 8.
	PluginCalls int
	// ProbeInterval is how often mounts are asked whether they live; 0 means 10 s.
	ProbeInterval time.Duration
	// Tasks receive events of dead mounts; nil drops them.
	Tasks Tasks
	// Host is where mounts and directories are; nil means this machine.
	Host mounts.Host
	// Own gives the files below a path to their owner and counts them; nil means package owner. keepGroup leaves
	// the group to the driver.
	Own func(ctx context.Context, path string, o *api.VolumeOwner, keepGroup bool, seen *atomic.Int64) error
	// Dial connects to sockets of plugins; nil dials unix sockets.
	Dial csi.Dialer
	// Connect makes connections to plugins in the place of Dial; nil means that Dial does.
	Connect csi.Connector
	// Silence returns for how long no server was heard, by a clock that keeps running while the host sleeps; nil means
	// never.
	Silence func() time.Duration
	// Promise is called before anything is mounted under a lease: the start of leases must be known after a restart.
	// Nothing is mounted when it fails. nil means that it is not needed.
	Promise func() error
	// Timeouts bound single calls of plugins; zero means the defaults.
	Timeouts csi.Timeouts
	// Chance returns a duration below the bound for the jitter of the waits of something; nil means any. Begin is
	// called when a try of something is due, before it begins; nil means nothing is.
	Chance func(what string, below time.Duration) time.Duration
	Begin  func(ctx context.Context, what string)
	// Metrics records calls of plugins; nil does not.
	Metrics *metrics.Recorder
	Log     hclog.Logger
}

// Tasks are the tasks of the node's allocations, as far as volumes concern them.
type Tasks interface {
	mounthealth.Tasks
	// Leaving reports whether the allocation is being stopped, or has ended.
	Leaving(allocID string) bool
	// Lost reports whether the servers had given the allocation up, as they do with all of a node.
	Lost(allocID string) bool
}

type noTasks struct{}

func (noTasks) Tell(_, _, _, _ string)                                      {}
func (noTasks) Restart(context.Context, string, string, bool, string) error { return nil }
func (noTasks) Signal(context.Context, string, string, string, string) error {
	return nil
}
func (noTasks) Leaving(string) bool { return false }
func (noTasks) Lost(string) bool    { return false }

// Mount is where a volume is on this host, ready to be shown inside tasks.
type Mount struct {
	// Source is a directory, or a device node when Device is set.
	Source   string
	Device   bool
	ReadOnly bool
	// Owner is who owns the volume's files, for directories that are made on it.
	Owner *api.VolumeOwner
}

// Service mounts and unmounts the CSI volumes of the node's allocations.
type Service struct {
	conf      Config
	log       hclog.Logger
	host      mounts.Host
	root      string // StateDir/csi, without symbolic links once Run or Prepare made it
	journal   *journal.Journal
	plugins   *csiplugins.Service
	health    *mounthealth.Monitor
	retries   *workqueue.Queue
	notes     notes
	bootID    string
	allocs    *knownAllocs
	leaseEnds leaseEnds
	pending   pendingCalls
	sharing   sharing
	// unrecorded are the mounts that no record explains.
	unrecorded unrecorded
	// unknownRows are the rows with calls that an earlier agent process may have left in the plugin, unknownVolumes the
	// volumes that it may be unmounting; started is the uptime at the start of this process.
	unknownRows    map[string]bool
	unknownVolumes map[string]bool
	started        time.Duration
	others         sync.Map // the mounts of each plugin, as *csi.Others
	// mountReports counts full mount reports to the servers.
	mountReports atomic.Int64
}

// New makes the service from what the buckets remember. Nothing runs before [Service.Run].
func New(c Config) (*Service, error) {
	switch {
	case c.StateDir == "" || c.Journal == nil || c.Registry == nil:
		return nil, fault.New(fault.Invalid, "volumes: state directory, journal and registry are required")
	case c.NodeID == nil || c.Servers == nil:
		return nil, fault.New(fault.Invalid, "volumes: node id and servers are required")
	}
	c = c.complete()
	dir, err := filepath.Abs(c.StateDir)
	if err != nil {
		return nil, fmt.Errorf("volumes: state directory: %w", err)
	}
	s := &Service{
		conf: c, log: c.Log, host: c.Host, root: filepath.Join(c.Host.Resolve(dir), "csi"), bootID: c.Host.BootID(),
		retries: c.queue("undo "), notes: notes{queue: c.queue("note ")},
	}
	s.health = mounthealth.NewMonitor(mounthealth.Config{
		Volumes: healthView{s}, Tasks: c.Tasks, Host: c.Host, Root: s.root, Interval: c.ProbeInterval, Repairs: c.queue("repair "),
		Failed: s.mountFailed, Log: c.Log,
	})
	if s.journal, err = journal.Open(c.Journal, currentPath(s.root, s.bootID), c.Log); err != nil {
		return nil, err
	}
	s.unrecorded.reported = map[string]string{}
	if _, _, err = s.listUnrecorded(); err != nil {
		return nil, err
	}
	s.markSessionsUncertain()
	s.allocs = newKnownAllocs(s.journal)
	s.markSessionsUnknown()
	s.plugins, err = csiplugins.New(csiplugins.Config{
		Root: s.root, Registry: c.Registry, Fences: c.Fences, Servers: c.Servers, NodeID: c.NodeID, NodeSecret: c.NodeSecret,
		Host: c.Host, Dial: c.Dial, Connect: c.Connect, Updated: c.Updated, NodeEvent: c.NodeEvent, Leaving: s.leaving,
		Healthy: func() { s.retries.Hurry(); s.health.Hurry() },
		Grace:   c.PluginGrace, HealthInterval: c.HealthInterval, Calls: c.PluginCalls, Timeouts: c.Timeouts, Metrics: c.Metrics, Log: c.Log,
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// queue makes a queue of tries of a kind.
func (c *Config) queue(kind string) *workqueue.Queue {
	q := workqueue.New(c.RetryMax)
	if chance := c.Chance; chance != nil {
		q.Chance = func(key string, below time.Duration) time.Duration { return chance(kind+key, below) }
	}
	if begin := c.Begin; begin != nil {
		q.Begin = func(ctx context.Context, key string) { begin(ctx, kind+key) }
	}
	return q
}

// begin is called before something starts that runs concurrently with other work.
func (s *Service) begin(ctx context.Context, what string) {
	if s.conf.Begin != nil {
		s.conf.Begin(ctx, what)
	}
}

// turn waits for the volume's turn at its plugin. by names the waiter: waits for the same thing start one after the
// other, not all at the moment at which the previous one ends. Nothing starts whose context has ended meanwhile, as by
// the end of the previous one.
func (s *Service) turn(ctx context.Context, by, pluginID, volume string) (release func(), err error) {
	s.begin(ctx, by)
	since := time.Now()
	release, err = s.plugins.Turn(ctx, pluginID, volume)
	if err != nil {
		return nil, err
	}
	if time.Since(since) > 0 {
		s.begin(ctx, by)
	}
	if ctx.Err() != nil {
		release()
		return nil, fmt.Errorf("wait for a turn at plugin %s: %w", pluginID, ctx.Err())
	}
	return release, nil
}

// complete fills in what is not set.
func (c Config) complete() Config {
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	if c.NodeEvent == nil {
		c.NodeEvent = func(*api.NodeEvent) {}
	}
	if c.NodeSecret == nil {
		c.NodeSecret = func() string { return "" }
	}
	if c.Tasks == nil {
		c.Tasks = noTasks{}
	}
	if c.Host == nil {
		c.Host = mounts.System{}
	}
	if c.Own == nil {
		c.Own = owner.Apply
	}
	c.PluginWait = cmp.Or(c.PluginWait, 5*time.Minute)
	c.RetryMax = cmp.Or(c.RetryMax, time.Minute)
	c.UndoPatience = cmp.Or(c.UndoPatience, undoPatience)
	return c
}

// Plugins is the service that supervises the plugins of the node.
func (s *Service) Plugins() *csiplugins.Service { return s.plugins }

// MountCounts returns how many published mounts there are, how many of them have failed, and how many do not respond.
func (s *Service) MountCounts() (all, failed, unresponsive int) { return s.health.Counts() }

// Run restores the journal and runs everything that works concurrently with the calls: retries, health, fingerprints.
// It ends with ctx; what hangs in the kernel then is left behind.
func (s *Service) Run(ctx context.Context) error {
	if len(s.journal.Rows()) > 0 {
		s.shareRoot()
	} else if err := s.plugins.PrepareRoot(); err != nil { // reported with the first volume
		s.log.Debug("the directory of volumes is not shared", "error", err)
	}
	s.reconcileMounts()
	var all sync.WaitGroup
	all.Go(func() { s.plugins.Run(ctx) })
	all.Go(func() { s.health.Run(ctx) })
	all.Go(func() { s.notes.queue.Run(ctx, s.sendNote) })
	all.Go(func() { s.watchMounts(ctx) })
	if left := s.retries.Run(ctx, s.retryRow); len(left) > 0 {
		s.log.Warn("volumes are still being unmounted at the end; the next start continues", "left", left)
	}
	all.Wait()
	if len(s.journal.Rows()) == 0 {
		s.plugins.LeaveRoot()
	}
	return nil
}

// leaving counts the volumes of a plugin whose allocations are leaving the node.
func (s *Service) leaving(pluginID, allocID string) (n int) {
	lost := s.conf.Tasks.Lost(allocID)
	for _, r := range s.journal.Rows() {
		if r.PluginID == pluginID && r.Touched() && r.State != journal.Released && (lost || s.conf.Tasks.Leaving(r.AllocID)) {
			n++
		}
	}
	return n
}

// reconcileMounts compares the journal with the mount table at the start of the agent and schedules the remaining work.
func (s *Service) reconcileMounts() {
	rows := s.journal.Rows()
	seen := s.viewMounts(rows)
	for _, r := range rows {
		//exhaustive:enforce
		switch r.State {
		case journal.Claiming: // nothing was mounted yet
		case journal.Leaving, journal.Released:
			s.retries.Add(r.Key())
		case journal.Mounting:
			if r.Stale {
				s.health.Repair(r.Key())
			}
		case journal.Mounted:
			if r.Stale {
				s.health.Repair(r.Key())
			}
			if !s.isThere(r, seen.top[r.Target.Host]) {
				s.log.Warn("a mount of the journal is not there", "alloc_id", r.AllocID, "volume_id", r.VolumeID)
			}
		}
	}
	if s.journal.HasRemovals() {
		s.retries.Add(removalsKey)
	}
	unrecorded, _, err := s.listUnrecorded()
	if err != nil {
		s.log.Warn("look for forgotten mounts", "error", err)
	}
	for _, e := range unrecorded {
		s.log.Warn("a mount has no record: it is adopted by its allocation, or unmounted if no allocation needs it", "path", e.Point)
	}
}

// Known is an allocation that the node knows from an earlier agent process.
type Known struct {
	Alloc *api.Allocation
	// Ended is set when its tasks have ended.
	Ended bool
}

// Restored lists the allocations that the node still knows after a restart, by id; mounts of others are unmounted.
func (s *Service) Restored(known map[string]Known) {
	ids := make(map[string]bool, len(known))
	for id := range known {
		ids[id] = true
	}
	s.allocs.restored(known)
	for _, r := range s.journal.Rows() {
		if ids[r.AllocID] {
			continue
		}
		s.log.Info("taking down the mount of a forgotten allocation", "alloc_id", r.AllocID, "volume_id", r.VolumeID)
		s.retries.Add(r.Key())
	}
	s.plugins.Retain(ids)
	s.planStages()
}

// Mounts returns what may be mounted on the node, for servers that have lost it. Mounts without a record are included
// if their allocation is known.
func (s *Service) Mounts() (all []*api.StaleMount) {
	s.mountReports.Add(1) // before the look: later mounts request their claim again
	for _, r := range s.journal.Rows() {
		if r.Touched() && r.State != journal.Released && r.BootID == s.bootID {
			all = append(all, &api.StaleMount{
				Namespace: r.Namespace, VolumeID: r.VolumeID, AllocID: r.AllocID, Use: r.Use, PluginID: r.PluginID, ExternalID: r.ExternalID,
				AccessMode: r.AccessMode, AttachmentMode: r.AttachmentMode, ReadOnly: r.ReadOnly, Lease: r.Lease,
			})
		}
	}
	for _, r := range s.unrecordedRows() {
		if r.AllocID != "" {
			all = append(all, &api.StaleMount{
				Namespace: r.Namespace, VolumeID: r.VolumeID, AllocID: r.AllocID, Use: r.Use, PluginID: r.PluginID,
				LastError: "the node has no record of this mount",
			})
		}
	}
	return all
}
