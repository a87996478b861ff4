package volumes

import (
	"cmp"
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/secrets"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// Config is what the service needs.
type Config struct {
	Log   hclog.Logger
	State *state.Store
	Raft  fsm.Leader
	// Drivers asks the controllers and nodes of plugins.
	Drivers Drivers
	// Secrets seals the secrets of requests, and opens those of volumes for the drivers.
	Secrets *secrets.Box
	// Outcomes knows what drivers answered to intents.
	Outcomes Outcomes
	// Reconciler retries calls and probes plugins.
	Reconciler Reconciler
	// Patience is how long a caller waits for another try after the first one failed; 0 means 10 s.
	Patience time.Duration
	// LimitExpiry is how long a node gets no more of a plugin's volumes after its driver reported that it can
	// take no more of them; 0 means [ledger.LimitExpiry].
	LimitExpiry time.Duration
	// Now is the clock; nil means the real one.
	Now func() time.Time
}

// Drivers asks the drivers of plugins for what follows from no intent.
type Drivers interface {
	// Validate reports as an error why a volume cannot be used as asked. A driver may also leave it open.
	Validate(ctx context.Context, r *api.ControllerValidateRequest) (*api.ControllerValidateResponse, error)
	// ListVolumes lists a page of the volumes at the provider.
	ListVolumes(ctx context.Context, r *api.ControllerListRequest) (*api.ControllerListResponse, error)
	// ListSnapshots lists a page of the snapshots at the provider.
	ListSnapshots(ctx context.Context, r *api.ControllerSnapshotListRequest) (*api.ControllerSnapshotListResponse, error)
	// Unmount asks the node of a claim to unmount and waits until it has. With force the node does what its plugin
	// cannot, or is not there to do.
	Unmount(ctx context.Context, c *api.VolumeClaim, force bool) error
}

// Reconciler is the loop of the leader that calls drivers for what the state intends.
type Reconciler interface {
	// Retry makes the failed calls about a volume, its claims and its snapshots now.
	Retry(v *api.Volume)
	// Probe calls the instances of a plugin on a node, with calls that read no volume.
	Probe(ctx context.Context, node, plugin string) ([]*api.PluginInstance, error)
}

// Outcomes knows what drivers answered to the intents of this leader's term.
type Outcomes interface {
	// Refusal is the final error that ended the operation of a volume, once; nil when it is not known here.
	Refusal(namespace, id string, operation uint64) error
	// Snapshot returns the result of a snapshot's intent, as the state has it.
	Snapshot(ctx context.Context, i *api.SnapshotIntent) (s *api.Snapshot, err error, known bool)
	// Kept returns why an abandoned snapshot was not deleted, once; nil when that is not known here.
	Kept(i *api.SnapshotIntent) error
}

// patience is how long a caller waits by default.
const patience = 10 * time.Second

// Service serves the requests on volumes, snapshots and plugins.
type Service struct {
	log         hclog.Logger
	state       *state.Store
	raft        fsm.Leader
	drivers     Drivers
	secrets     *secrets.Box
	outcomes    Outcomes
	reconciler  Reconciler
	patience    time.Duration
	limitExpiry time.Duration
	now         func() time.Time
	confirms    confirmations
	silent      silence
}

// New makes the service.
func New(c Config) *Service {
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Service{
		log: c.Log, state: c.State, raft: c.Raft, drivers: c.Drivers, outcomes: c.Outcomes, secrets: c.Secrets, reconciler: c.Reconciler,
		patience: cmp.Or(c.Patience, patience), limitExpiry: cmp.Or(c.LimitExpiry, ledger.LimitExpiry), now: c.Now,
	}
}

// Handlers binds the service's methods.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{
		wire.VolumeRegister.Handle(masked(s, s.Register)),
		wire.VolumeCreate.Handle(masked(s, s.Create)),
		wire.VolumeDeregister.Handle(s.Deregister),
		wire.VolumeDelete.Handle(masked(s, s.Delete)),
		wire.VolumeDetach.Handle(masked(s, s.Detach)),
		wire.VolumeList.Handle(s.List),
		wire.VolumeAttachments.Handle(s.Attachments),
		wire.VolumeGet.Handle(s.Get),
		wire.VolumeDoctor.Handle(s.Doctor),
		wire.VolumeRepair.Handle(masked(s, s.Repair)),
		wire.VolumeTimeline.Handle(s.Timeline),
		wire.VolumeClaim.Handle(s.Claim),
		wire.VolumeUnpublish.Handle(s.Unpublish),
		wire.VolumeConfirmIntent.Handle(s.ConfirmIntent),
		wire.VolumeListExternal.Handle(s.ListExternal),
		wire.VolumeSnapshotCreate.Handle(masked(s, s.CreateSnapshots)),
		wire.VolumeSnapshotDelete.Handle(masked(s, s.DeleteSnapshot)),
		wire.VolumeSnapshotList.Handle(masked(s, s.ListSnapshots)),
		wire.PluginList.Handle(s.ListPlugins),
		wire.PluginGet.Handle(s.GetPlugin),
		wire.PluginDoctor.Handle(s.PluginDoctor),
	}
}

func namespaceOf(ns string) string {
	if ns == "" {
		return api.DefaultNamespace
	}
	return ns
}

// write proposes a command and returns its index.
func (s *Service) write(ctx context.Context, c fsm.Command) (uint64, error) {
	res, err := s.raft.Propose(ctx, c)
	if err != nil {
		return 0, err
	}
	return res.Index, nil
}
