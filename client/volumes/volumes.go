package volumes

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/plugins/csi"
)

// Bucket keeps values durably; client/store gives one.
type Bucket interface {
	// Get returns nil when there is no value.
	Get(key string) ([]byte, error)
	// Put returns when the value is durable.
	Put(key string, value []byte) error
	Delete(key string) error
	All() (map[string][]byte, error)
}

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
	Journal, Registry Bucket
	// Updated is called with the whole fingerprint whenever it changed. It must not block.
	Updated func(controllers, nodes map[string]*api.CSIInfo)
	// NodeEvent records an event of the node; may be nil. It must not block.
	NodeEvent func(*api.NodeEvent)
	// PluginWait bounds the wait for a plugin that a claim needs; 0 means 5 minutes.
	PluginWait time.Duration
	// PluginGrace is how long a plugin stays known while its task does not run; 0 means 30 s.
	PluginGrace time.Duration
	// RetryMax caps the wait between tries; 0 means 1 minute.
	RetryMax time.Duration
	// HealthInterval is how often healthy plugins are probed; 0 means 30 s.
	HealthInterval time.Duration
	// PluginCalls is how many calls of volumes a plugin gets at once; 0 means 8.
	PluginCalls int
	// ProbeInterval is how often mounts are asked whether they live; 0 means 10 s.
	ProbeInterval time.Duration
	// Tasks are told of dead mounts; nil means nobody is.
	Tasks Tasks
	// Timeouts bound single calls of plugins; zero means the defaults.
	Timeouts csi.Timeouts
	Log      hclog.Logger
}

// Mount is where a volume is on this host, ready to be shown inside tasks.
type Mount struct {
	// Source is a directory, or a device node when Device is set.
	Source   string
	Device   bool
	ReadOnly bool
	// Owner is who owns the volume's files, for directories that are made on it.
	Owner *api.VolumeOwner
}

// Service is the volume room of the node.
type Service struct {
	conf     Config
	log      hclog.Logger
	root     string // StateDir/csi, without symbolic links once Run or Prepare made it
	journal  *journal
	plugins  *registry
	locks    locks
	calls    calls
	fences   fences
	probes   liveness
	retries  *queue
	ward     ward
	cures    *queue
	notes    notes
	started  time.Time
	bootID   string
	liveMu   sync.Mutex
	live     map[string]bool // allocations between Up and Down
	shareErr error
	share    sync.Once
}

// New makes the service from what the buckets remember. Nothing runs before [Service.Run].
func New(c Config) (*Service, error) {
	switch {
	case c.StateDir == "" || c.Journal == nil || c.Registry == nil:
		return nil, fault.New(fault.Invalid, "volumes: state directory, journal and registry are required")
	case c.NodeID == nil || c.Servers == nil:
		return nil, fault.New(fault.Invalid, "volumes: node id and servers are required")
	}
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	if c.Updated == nil {
		c.Updated = func(_, _ map[string]*api.CSIInfo) {}
	}
	if c.NodeEvent == nil {
		c.NodeEvent = func(*api.NodeEvent) {}
	}
	if c.NodeSecret == nil {
		c.NodeSecret = func() string { return "" }
	}
	for field, fallback := range map[*time.Duration]time.Duration{
		&c.PluginWait: 5 * time.Minute, &c.PluginGrace: 30 * time.Second, &c.RetryMax: time.Minute, &c.HealthInterval: 30 * time.Second,
		&c.ProbeInterval: probeInterval,
	} {
		if *field <= 0 {
			*field = fallback
		}
	}
	if c.PluginCalls <= 0 {
		c.PluginCalls = pluginCalls
	}
	if c.Tasks == nil {
		c.Tasks = nobody{}
	}
	dir, err := filepath.Abs(c.StateDir)
	if err != nil {
		return nil, fmt.Errorf("volumes: state directory: %w", err)
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real // the mount table knows no symbolic links
	}
	s := &Service{
		conf: c, log: c.Log, root: filepath.Join(dir, "csi"), started: time.Now(), bootID: bootID(),
		live: map[string]bool{}, retries: newQueue(c.RetryMax),
		calls: calls{most: c.PluginCalls}, cures: newQueue(c.RetryMax), notes: notes{queue: newQueue(c.RetryMax)},
	}
	if s.journal, err = openJournal(c.Journal, c.Log); err != nil {
		return nil, err
	}
	if s.plugins, err = openRegistry(c, func() { s.retries.hurry(); s.cures.hurry() }); err != nil {
		return nil, err
	}
	return s, nil
}

// Run restores the journal and leads everything that works beside the calls: retries, health, fingerprints.
// It ends with ctx.
func (s *Service) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	if err := s.prepareRoot(); err != nil {
		s.log.Warn("mounts of plugins with file system isolation will not be seen", "error", err)
	}
	s.plugins.publish()
	s.survey()
	all.Go(func() { s.plugins.expire(ctx) })
	for _, p := range s.plugins.all() {
		all.Go(func() { s.plugins.attend(ctx, p) })
	}
	all.Go(func() { s.watchMounts(ctx) })
	all.Go(func() { s.cures.run(ctx, s.cure) })
	all.Go(func() { s.notes.queue.run(ctx, s.tellNote) })
	s.retries.run(ctx, s.retryRow)
	s.plugins.closing()
	s.leaveRoot()
	return nil
}

// survey compares the journal with the mount table and plans what is left to do.
func (s *Service) survey() {
	for _, r := range s.journal.rows() {
		switch r.State {
		case rowLeaving, rowReleased:
			s.retries.add(r.key())
		case rowMounting:
			if r.Stale {
				s.cures.add(r.key())
			}
		case rowMounted:
			if r.Stale {
				s.cures.add(r.key())
			}
			if ok, err := s.adoptable(r); err != nil || !ok {
				s.log.Warn("a mount of the journal is not there", "alloc_id", r.AllocID, "volume_id", r.VolumeID, "error", err)
			}
		}
	}
	orphans, err := s.orphans()
	if err != nil {
		s.log.Warn("look for forgotten mounts", "error", err)
	}
	for _, e := range orphans {
		s.log.Warn("a mount that the journal does not know; it is left alone", "path", e.Point)
	}
}

// Restored says which allocations the node still knows after a restart; mounts of others are taken down.
func (s *Service) Restored(allocs map[string]bool) {
	for _, r := range s.journal.rows() {
		if allocs[r.AllocID] {
			continue
		}
		s.log.Info("taking down the mount of a forgotten allocation", "alloc_id", r.AllocID, "volume_id", r.VolumeID)
		s.retries.add(r.key())
	}
	for _, p := range s.plugins.all() {
		if !allocs[p.AllocID] {
			s.plugins.dropAlloc(p.AllocID)
		}
	}
}

// Mounts is what may be mounted on the node, for servers that have forgotten it.
func (s *Service) Mounts() (all []*api.StaleMount) {
	for _, r := range s.journal.rows() {
		if r.touched() && r.State != rowReleased && r.BootID == s.bootID {
			all = append(all, &api.StaleMount{
				Namespace: r.Namespace, VolumeID: r.VolumeID, AllocID: r.AllocID, PluginID: r.PluginID, ExternalID: r.ExternalID,
			})
		}
	}
	return all
}
