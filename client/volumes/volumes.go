package volumes

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
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
	Log        hclog.Logger
}

// Mount is where a volume is on this host, ready to be shown inside tasks.
type Mount struct {
	// Source is a directory, or a device node when Device is set.
	Source   string
	Device   bool
	ReadOnly bool
}

// Service is the volume room of the node.
type Service struct {
	conf Config
}

// New makes the service. Nothing runs before [Service.Run].
func New(c Config) (*Service, error) { return &Service{conf: c}, nil }

// Run restores the journal and leads everything that works beside the calls: retries, health, fingerprints.
// It ends with ctx.
func (s *Service) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Restored says which allocations the node still knows after a restart; mounts of others are taken down.
func (s *Service) Restored(allocs map[string]bool) {}

// Up claims, stages and publishes all CSI volumes of the allocation's group and returns the mounts by the
// names of their requests. It may be repeated, after a restart too: live mounts are adopted without any call.
func (s *Service) Up(ctx context.Context, alloc *api.Allocation) (map[string]Mount, error) {
	return nil, nil
}

// Down unpublishes what the allocation has, unstages what nobody else uses, and tells the servers. What
// fails stays in the journal and is tried again by [Service.Run]; the error tells of the first try.
// Down of an allocation without volumes does nothing.
func (s *Service) Down(ctx context.Context, allocID string) error { return nil }

// Handlers serve the calls that servers make on this node.
func (s *Service) Handlers() []wire.Handler { return nil }
