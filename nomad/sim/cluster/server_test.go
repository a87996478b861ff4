package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/allocs"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/gc"
	"github.com/open-nomad/open-nomad/nomad/member"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/secrets/secretstest"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
)

// box seals the secrets of volumes on all servers.
var box = secretstest.NewBox()

// Times of the played cluster.
const (
	fenceAfter  = 4 * time.Second
	beatMin     = 2 * time.Second
	beatGrace   = 2 * time.Second
	failoverTTL = 6 * time.Second
	hold        = 3 * time.Second
)

// server is one process with the real services over a replica of the state.
type server struct {
	w     *World
	id    string
	clock time.Duration // how far its clock is off
	lag   time.Duration // how late it applies as a follower

	// What follows is guarded by World.mu.
	up         bool
	life       context.Context
	die        context.CancelFunc
	store      *state.Store
	local      *fsm.Local
	applied    int
	ready      bool
	knows      *server
	stop       context.CancelFunc // of its loops
	ended      *sync.WaitGroup    // by them
	handlers   map[string]wire.Handler
	volumes    *volumes.Service
	reconciler *reconciler.Reconciler
	nodes      *nodes.Service
	early      bool // the next reading of the clock is wrong on purpose
	alone      bool // cut off from the other servers
	disk       snapshot
	gone       bool   // destroyed
	has, first int    // how many entries its log has got, and how many of them it has lost to the snapshot
	since      uint64 // the index at which its term began
}

func (w *World) newServer(id string) *server {
	r := w.dice.roll("server " + id)
	s := &server{w: w, id: id, clock: w.some(r, 4*time.Second) - 2*time.Second}
	if r.IntN(3) == 0 {
		s.lag = w.some(r, 2*time.Second)
	}
	w.restart(s)
	return s
}

// restart begins a new process whose state comes from the log; the lock is held, or nobody knows s yet.
func (w *World) restart(s *server) {
	if s.die != nil {
		s.die()
	}
	s.life, s.die = context.WithCancel(w.root)
	store := state.New()
	registry := fsm.NewRegistry(commands.All, nodes.Commands, allocs.Commands, plan.Commands, gc.Commands, member.Commands)
	registry.Register(func() fsm.Command { return &op{} })
	before := s.applied
	s.store, s.applied, s.up, s.ready, s.alone, s.knows, s.stop, s.ended = store, s.disk.entries, true, false, false, w.log.leader, func() {}, nil
	if s.disk.state != nil {
		if err := store.Restore(bytes.NewReader(s.disk.state)); err != nil {
			w.fail("%s cannot read its snapshot: %v", s.id, err)
		}
		w.checkAlike(s)
	}
	s.local = fsm.NewLocal(store, registry)
	limits := reconciler.Limits{FenceAfter: fenceAfter, RetryMax: 8 * time.Second, AttachTimeout: 15 * time.Second, MakeTimeout: 20 * time.Second}
	if w.bug == BugHungPlaces {
		limits.Attaching, limits.Detaching, limits.Beside = 1, 1, 1
		limits.TurnAfter, limits.SlowAfter, limits.AttachTimeout = time.Hour, time.Hour, time.Hour
	}
	s.reconciler = reconciler.New(reconciler.Config{
		Secrets: box, State: store, Raft: s, Nodes: s, Now: s.now,
		Chance: func(what string, below time.Duration) time.Duration { return w.some(w.dice.roll(s.id+" "+what), below) },
		Begin: func(ctx context.Context, what string) {
			w.sleep(ctx, w.some(w.dice.roll(s.id+" begins "+what), time.Millisecond))
		},
		Limits: limits,
	})
	s.volumes = volumes.New(volumes.Config{Secrets: box, State: store, Raft: s, Drivers: s.reconciler, Outcomes: s.reconciler, Now: s.now})
	s.nodes = nodes.New(nodes.Config{
		Log: quiet, State: store, Raft: s, Voters: s.voters,
		Jitter:    func(below time.Duration) time.Duration { return w.some(w.dice.roll(s.id+" ttl"), below) },
		Heartbeat: nodes.Heartbeat{MinTTL: beatMin, Grace: beatGrace, FailoverTTL: failoverTTL},
	})
	s.handlers = map[string]wire.Handler{}
	allocations := allocs.New(allocs.Config{State: store, Raft: s})
	for _, list := range [][]wire.Handler{s.volumes.Handlers(), s.nodes.Handlers(), allocations.Handlers(), {wire.StatusLeader.Handle(s.leader)}} {
		for _, h := range list {
			s.handlers[h.Name] = s.led(h)
			if w.bug == BugForgetful && h.Name == wire.VolumeConfirmIntent.Name {
				delete(s.handlers, h.Name) // unknown: any intent counts
			}
		}
	}
	_, _ = s.applyTo(before)
	w.catchUp(s)
}

// crash ends the process; the lock is held.
func (s *server) crash() {
	w := s.w
	w.checkAlike(s)
	s.up, s.ready, s.alone = false, false, false
	s.die()
}

// now is the clock of the volumes service.
func (s *server) now() time.Time {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.early {
		s.early = false
		return time.Now().Add(-time.Hour)
	}
	return time.Now()
}

// VerifyLeader asks the others whether this server leads still.
func (s *server) VerifyLeader(ctx context.Context) error {
	if !s.w.sleep(ctx, s.w.some(s.w.dice.roll("verify "+s.id+numberOf(ctx)), 5*time.Millisecond)) {
		return ctx.Err()
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.w.log.leader != s || !s.up {
		return fault.New(fault.NotLeader, "%s does not lead any more", s.id)
	}
	return nil
}

// begin starts the loops of the leader, once those of an earlier term have ended; the lock is held.
func (s *server) begin() {
	ctx, stop := context.WithCancel(s.life)
	s.stop()
	before, ended := s.ended, &sync.WaitGroup{}
	s.stop, s.ended = stop, ended
	s.early = s.w.bug == BugNoTerm && s.w.log.term > 1
	s.since = s.store.Read().Index()
	for _, run := range []func(context.Context) error{s.reconciler.Run, s.volumes.Run, s.nodes.Run} {
		ended.Go(func() {
			if before != nil {
				before.Wait()
			}
			_ = run(ctx)
		})
	}
}

func (s *server) name() string { return s.id }

func (s *server) serves(method string) (*wire.Handler, context.Context) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if !s.up {
		return nil, s.life
	}
	h, ok := s.handlers[method]
	if !ok {
		h = wire.Handler{New: func() any { return &api.Empty{} }, Serve: func(context.Context, any) (any, error) {
			return nil, fault.New(fault.Unimplemented, "no method %s", method)
		}}
	}
	return &h, s.life
}

// leader answers who leads.
func (s *server) leader(context.Context, *api.QueryOptions) (*api.StatusLeaderResponse, error) {
	voters, settled, err := s.voters()
	if err != nil {
		return nil, err
	}
	out := &api.StatusLeaderResponse{Voters: voters, Unsettled: !settled}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	out.Server = s.id
	if s.knows != nil {
		out.Leader = s.knows.id
	}
	return out, nil
}

// led serves what only the leader may answer there: once forwarded, and held for a while without a leader.
func (s *server) led(h wire.Handler) wire.Handler {
	serve := h.Serve
	h.Serve = func(ctx context.Context, req any) (any, error) {
		if q, ok := req.(interface{ Options() *api.QueryOptions }); h.Scope == wire.Local || h.Scope == wire.Any && ok && q.Options().Stale {
			return serve(ctx, req)
		}
		for begun := time.Now(); ; {
			s.w.mu.Lock()
			ready, to := s.ready, s.knows
			s.w.mu.Unlock()
			var out any
			err := fault.New(fault.NotLeader, "no cluster leader")
			switch {
			case ready:
				out, err = serve(ctx, req)
			case to != nil && to != s && ctx.Value(hop{}) == nil:
				out = h.NewReply()
				err = caller{s.w, s.id, forwarded{to}, s.id}.Invoke(ctx, h.Name, req, out)
			}
			if !errors.Is(err, fault.NotLeader) || ctx.Value(hop{}) != nil || time.Since(begun) > hold {
				return out, err
			}
			if !s.w.sleep(ctx, 100*time.Millisecond+s.w.some(s.w.dice.roll("hold "+s.id+" "+h.Name+told(req)), 100*time.Millisecond)) {
				return nil, err
			}
		}
	}
	return h
}

type hop struct{}

// forwarded is a server that is asked by another one.
type forwarded struct{ *server }

func (f forwarded) serves(method string) (*wire.Handler, context.Context) {
	h, life := f.server.serves(method)
	return h, context.WithValue(life, hop{}, true)
}

// Node is the way to a node, as far as it is connected. It implements [rpc.NodeCaller].
func (s *server) Node(id string) (wire.Caller, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for _, n := range s.w.all() {
		if n.id == id && n.agent != nil && s.up && !s.w.cut[[2]string{s.id, id}] {
			return counted{s, caller{s.w, s.id, n, s.id}}, nil
		}
	}
	return nil, fault.New(fault.Unavailable, "node %s is not connected", id)
}

// counted watches the calls that a leader makes to controllers.
type counted struct {
	s  *server
	to caller
}

// Invoke implements [wire.Caller].
func (c counted) Invoke(ctx context.Context, method string, req, resp any) error {
	w := c.s.w
	external := ""
	switch r := req.(type) {
	case *api.ControllerPublishRequest:
		external = r.ExternalID
	case *api.ControllerUnpublishRequest:
		external = r.ExternalID
	case *api.ControllerDeleteRequest:
		external = r.ExternalID
	case *api.ControllerExpandRequest:
		external = r.ExternalID
	}
	if external != "" {
		w.mu.Lock()
		key := fmt.Sprintf("%s in term %d for %s", c.s.id, w.log.term, external)
		if w.calls[key]++; w.calls[key] > 1 {
			w.fail("%d calls are in flight of %s", w.calls[key], key)
		}
		w.tell("%s asks %s: %s %s", c.s.id, c.to.to.name(), method, told(req))
		w.mu.Unlock()
		defer func() {
			w.mu.Lock()
			w.calls[key]--
			w.mu.Unlock()
		}()
		if w.bug == BugTwoCalls {
			go c.again(ctx, method, req, key)
		}
	}
	switch answered, dropped := c.misled(method, req); {
	case answered:
		return nil
	case dropped:
		return fault.New(fault.Unavailable, "the intent is not mine")
	}
	if w.bug == BugFrozenSecrets {
		w.freeze(req)
	}
	return w.heard(c.to.Invoke(ctx, method, req, resp))
}

// op creates a job, its namespace and the cluster's id.
type op struct{ Job *api.Job }

func (*op) Kind() fsm.Kind { return fsm.KindSkippable + 7 }

func (o *op) Apply(tx *state.Txn) (any, error) {
	if tx.Namespace(o.Job.Namespace) == nil {
		tx.PutNamespace(&api.Namespace{Name: o.Job.Namespace})
	}
	if tx.ClusterID() == "" { // a restore compares it: an older state of the same cluster lacks what was detached since
		tx.PutClusterID("simulation")
	}
	tx.PutJob(o.Job)
	return nil, nil
}

func (o *op) MarshalMsg(b []byte) ([]byte, error) { return o.Job.MarshalMsg(b) }

func (o *op) UnmarshalMsg(b []byte) ([]byte, error) {
	o.Job = &api.Job{}
	return o.Job.UnmarshalMsg(b)
}

var (
	_ host           = (*server)(nil)
	_ msgp.Marshaler = (*op)(nil)
)
