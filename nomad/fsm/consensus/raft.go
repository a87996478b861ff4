package consensus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	autopilot "github.com/hashicorp/raft-autopilot"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/internal/tracing"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/fsm/disk"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Config is what the consensus engine needs.
type Config struct {
	// ID is the permanent id of this server; Name is its name for people.
	ID string
	// Advertise is the address at which other servers reach the port, host:port.
	Advertise string
	// Dir holds log and snapshots; empty keeps everything in memory.
	Dir string
	// Single makes this server the only voter of a new cluster when it has no log yet.
	Single bool

	State    *state.Store
	Registry *fsm.Registry
	// Observer follows the log; nil is none.
	Observer fsm.Observer
	// MayRestore refuses a restore that is not forced.
	MayRestore func(now *state.Txn) error
	// RollBack prepares an older state for taking the place of the present one.
	RollBack func(older, now *state.Txn)
	// Listener delivers the raft connections of the port.
	Listener net.Listener
	// Dial opens a raft connection to another server.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	Log  hclog.Logger
	// Metrics records how long commands take; nil does not.
	Metrics *metrics.Recorder

	// Zero values below mean the defaults of [Default].
	HeartbeatTimeout  time.Duration
	SnapshotInterval  time.Duration
	SnapshotThreshold uint64
	TrailingLogs      uint64
}

// Default returns the tunable part of the configuration.
func Default() Config {
	return Config{
		HeartbeatTimeout:  400 * time.Millisecond,
		SnapshotInterval:  2 * time.Minute,
		SnapshotThreshold: 8192,
		TrailingLogs:      10_000,
	}
}

const (
	transportPool    = 3
	transportTimeout = 10 * time.Second
	enqueueTimeout   = 10 * time.Second
	appendMax        = 256
)

// Raft brings commands into the replicated log. It implements [Proposer].
type Raft struct {
	id         string
	state      *state.Store
	log        hclog.Logger
	machine    *fsm.Machine
	stores     *disk.Stores
	configs    *configLog
	transport  *raft.NetworkTransport
	raft       *raft.Raft
	leading    chan bool
	last       atomic.Int64
	mayRestore func(now *state.Txn) error
	rollBack   func(older, now *state.Txn)
	// writing guards restoring, and is held while a command is queued: what is committed between a restore's look at
	// the state and its end would be lost.
	writing   sync.RWMutex
	restoring bool
	// scratch is where large files lie for a moment; empty is the system's place for them.
	scratch string
	// caughtUp is the term that this server leads and before which it has applied everything that was committed.
	caughtUp atomic.Uint64
	lease    lease
	pilot    atomic.Pointer[autopilot.Autopilot]
	standing sync.Mutex
	renewing sync.Mutex
	renewed  chan struct{}
	// ended is closed when raft takes nothing any more.
	ended chan struct{}
	end   sync.Once
}

// Open locks the data directory, opens the stores, restores the state and joins the cluster.
func Open(c Config) (*Raft, error) {
	st := disk.Memory()
	if c.Dir != "" {
		var err error
		if st, err = disk.Open(c.Dir, c.Log); err != nil {
			return nil, err
		}
		if err = disk.VerifyLog(st.Logs, c.Dir, c.Log); err != nil {
			return nil, errors.Join(err, st.Close())
		}
	}
	configs := newConfigLog(st.Logs)
	st.Logs = configs
	r := &Raft{
		id: c.ID, state: c.State, log: c.Log, stores: st, configs: configs, scratch: c.Dir, mayRestore: c.MayRestore, rollBack: c.RollBack,
		machine: fsm.NewMachine(c.State, c.Registry, c.Log),
		leading: make(chan bool, 1), ended: make(chan struct{}),
	}
	r.machine.Metrics = c.Metrics
	r.machine.Observer = c.Observer
	if err := r.start(c); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Raft) start(c Config) error {
	conf := r.config(c)
	// A follower votes for another server only a heartbeat timeout after its last contact with the leader.
	r.lease.length, r.lease.turn = conf.HeartbeatTimeout/4, make(chan struct{}, 1)
	r.transport = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream:  &streams{Listener: c.Listener, advertise: c.Advertise, dial: c.Dial, ended: make(chan struct{})},
		MaxPool: transportPool, Timeout: transportTimeout, Logger: c.Log.Named("transport"),
	})
	if c.Single {
		if err := r.bootstrap(conf); err != nil {
			return err
		}
	}
	if c.Dir != "" {
		b, err := disk.Begin(r.machine, r.stores, c.Dir)
		if err == nil {
			err = b.SetAside(c.Dir)
		}
		if err != nil {
			return err
		}
		if len(b.Damaged) > 0 {
			c.Log.Error("a snapshot could not be read: the one before and the log made up for it", "error", b.Why, "index", b.Index,
				"moved_to", filepath.Join(c.Dir, disk.DamagedSnapshots))
		}
	}
	conf.NoSnapshotRestoreOnStart = true // begin has done it
	var err error
	r.raft, err = raft.NewRaft(conf, r.machine, r.stores.Logs, r.stores.Stable, r.stores.Snapshots, r.transport)
	if err != nil {
		return fmt.Errorf("start raft: %w", errors.Join(err, r.machine.Failure()))
	}
	return nil
}

func (r *Raft) config(c Config) *raft.Config {
	d := Default()
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(c.ID)
	conf.Logger = c.Log.Named("raft")
	conf.NoLegacyTelemetry = true
	conf.BatchApplyCh = true
	conf.MaxAppendEntries = appendMax
	conf.SnapshotThreshold = or(c.SnapshotThreshold, d.SnapshotThreshold)
	conf.SnapshotInterval = or(c.SnapshotInterval, d.SnapshotInterval)
	conf.TrailingLogs = or(c.TrailingLogs, d.TrailingLogs)
	conf.HeartbeatTimeout = or(c.HeartbeatTimeout, d.HeartbeatTimeout)
	conf.ElectionTimeout = conf.HeartbeatTimeout
	// A leader without a quorum must step down before the others elect a new leader.
	conf.LeaderLeaseTimeout = conf.HeartbeatTimeout * 3 / 4
	return conf
}

func or[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

func (r *Raft) bootstrap(conf *raft.Config) error {
	existing, err := raft.HasExistingState(r.stores.Logs, r.stores.Stable, r.stores.Snapshots)
	if err != nil {
		return fmt.Errorf("look for raft state: %w", err)
	}
	if existing {
		return nil
	}
	only := raft.Configuration{Servers: []raft.Server{{ID: conf.LocalID, Address: r.transport.LocalAddr()}}}
	if err := raft.BootstrapCluster(conf, r.stores.Logs, r.stores.Stable, r.stores.Snapshots, r.transport, only); err != nil {
		return fmt.Errorf("bootstrap cluster: %w", err)
	}
	return nil
}

// Close leaves the cluster's traffic and gives the data directory back.
func (r *Raft) Close() error {
	var errs []error
	if r.raft != nil {
		errs = append(errs, r.raft.Shutdown().Error())
		r.end.Do(func() { close(r.ended) })
	}
	if r.transport != nil {
		errs = append(errs, r.transport.Close())
	}
	return errors.Join(append(errs, r.stores.Close())...)
}

// Failed is closed when the log holds something that this program must not skip; Failure returns the reason.
func (r *Raft) Failed() <-chan struct{} { return r.machine.Failed() }

// Failure is why the state machine stopped, or nil.
func (r *Raft) Failure() error { return r.machine.Failure() }

// Propose brings a command into the log and waits until it is applied here. When ctx ends first the
// outcome is unknown and the error is a fault.Timeout.
func (r *Raft) Propose(ctx context.Context, cmd fsm.Command) (fsm.Result, error) {
	ctx, span := tracing.Start(ctx, "raft apply ", fsm.MetricName(cmd.Kind()))
	res, err := r.propose(ctx, cmd)
	span.End(err)
	return res, err
}

func (r *Raft) propose(ctx context.Context, cmd fsm.Command) (fsm.Result, error) {
	if err := ctx.Err(); err != nil {
		return fsm.Result{}, err
	}
	if r.raft.State() != raft.Leader {
		return fsm.Result{}, notLeader()
	}
	if err := fsm.CheckKind(cmd.Kind(), r.Agreed()); err != nil {
		return fsm.Result{}, err
	}
	b, err := fsm.EncodeEntry(cmd, r.now(), r.id)
	if err != nil {
		return fsm.Result{}, err
	}
	forget, err := r.machine.Vet(b)
	if err != nil {
		return fsm.Result{}, err
	}
	defer forget()
	f, err := r.queue(b)
	if err != nil {
		return fsm.Result{}, err
	}
	if err := r.await(ctx, f); err != nil {
		return fsm.Result{}, err
	}
	done, ok := f.Response().(fsm.Applied)
	if !ok {
		return fsm.Result{}, fault.New(fault.Internal, "command kind %d was answered with a %T", cmd.Kind(), f.Response())
	}
	if done.Err != nil {
		return fsm.Result{}, done.Err
	}
	return fsm.Result{Index: f.Index(), Value: done.Value}, nil
}

func (r *Raft) queue(entry []byte) (raft.ApplyFuture, error) {
	r.writing.RLock()
	defer r.writing.RUnlock()
	if r.restoring {
		return nil, restoring()
	}
	return r.raft.ApplyLog(raft.Log{Data: entry}, enqueueTimeout), nil
}

// now never runs backwards within one process.
func (r *Raft) now() time.Time {
	for {
		now, last := time.Now().UnixNano(), r.last.Load()
		now = max(now, last)
		if r.last.CompareAndSwap(last, now) {
			return time.Unix(0, now).UTC()
		}
	}
}

// Barrier waits until everything that was committed before is applied here.
func (r *Raft) Barrier(ctx context.Context) error {
	return r.await(ctx, r.raft.Barrier(enqueueTimeout))
}

// VerifyLeader asks a majority of the servers whether this one still leads.
func (r *Raft) VerifyLeader(ctx context.Context) error { return r.await(ctx, r.raft.VerifyLeader()) }

// Snapshot writes a snapshot now; nothing new to write is no error.
func (r *Raft) Snapshot(ctx context.Context) error {
	err := r.wait(ctx, r.raft.Snapshot())
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}

// await waits for a future of raft that a majority has to confirm, or for ctx.
func (r *Raft) await(ctx context.Context, f raft.Future) error {
	err := r.wait(ctx, f)
	if err == nil {
		noteCommit(ctx)
	}
	return err
}

// wait gives up when raft has ended: what was in its queues then is never answered.
func (r *Raft) wait(ctx context.Context, f raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return classify(err)
	case <-r.ended:
		return fault.New(fault.Unavailable, "the outcome is unknown: %w", raft.ErrRaftShutdown)
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fault.New(fault.Timeout, "raft did not commit in time; the outcome is unknown: %w", ctx.Err())
		}
		return ctx.Err()
	}
}

func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fault.New(fault.NotLeader, "%w", err)
	case errors.Is(err, raft.ErrLeadershipLost):
		return unknownOutcome(err)
	case errors.Is(err, raft.ErrRaftShutdown):
		return fault.New(fault.Unavailable, "%w", err)
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return fault.New(fault.Exhausted, "the raft queue is full: %w", err)
	}
	return err
}

func notLeader() error { return fault.New(fault.NotLeader, "this server is not the leader") }
