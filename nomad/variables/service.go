package variables

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/mask"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Config is what the service needs.
type Config struct {
	Log   hclog.Logger
	State *state.Store
	Raft  fsm.Leader
	Keys  Keys
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Service implements the RPC methods of variables.
type Service struct {
	Config
	mu sync.Mutex
	// ends maps the ids of locks to when their TTL ends unless they are renewed. The leader fills it.
	ends map[string]time.Time
}

// New makes the service.
func New(c Config) *Service {
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Service{Config: c, ends: map[string]time.Time{}}
}

// Handlers binds the RPC methods of the service.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{
		wire.VariableList.Handle(s.List),
		wire.VariableGet.Handle(s.Get),
		wire.VariableApply.Handle(s.Apply),
		wire.VariableRenew.Handle(s.Renew),
	}
}

// may reports whether the caller may do something with a variable.
func may(ctx context.Context, namespace, path, operation string) bool {
	return access.Of(ctx).Rights.Variables(namespace, path, operation)
}

// List lists the variables that the caller may list, by namespace and path.
func (s *Service) List(ctx context.Context, q *api.QueryOptions) (*api.VariableListResponse, error) {
	out := &api.VariableListResponse{}
	var err error
	keys := []state.Key{state.TableKey(state.TableVariables)}
	out.Variables, err = page.Read(ctx, s.State, q, &out.QueryMeta, keys, func(tx *state.Txn) page.List[*api.VariableRow, *api.VariableMeta] {
		return page.List[*api.VariableRow, *api.VariableMeta]{
			Walk: tx.VariableSpan, Token: func(v *api.VariableRow) string { return state.PathToken(v.Namespace, v.Path) },
			Keep: func(v *api.VariableRow) bool { return may(ctx, v.Namespace, v.Path, "list") },
			View: func(v *api.VariableRow) any { return mask.Redacted(&v.VariableMeta) },
			Row:  func(v *api.VariableRow) *api.VariableMeta { return mask.Redacted(&v.VariableMeta) },
		}
	})
	return out, err
}

// Get reads one variable.
func (s *Service) Get(ctx context.Context, r *api.VariableRequest) (*api.VariableResponse, error) {
	out := &api.VariableResponse{}
	namespace := cmp.Or(r.Namespace, api.DefaultNamespace)
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, []state.Key{state.VariableKey(namespace, r.Path)}, func(tx *state.Txn) (err error) {
		out.Meta, out.Items = nil, nil
		if !may(ctx, namespace, r.Path, "read") {
			return access.ErrDenied
		}
		if row := tx.Variable(namespace, r.Path); row != nil {
			out.Meta = mask.Redacted(&row.VariableMeta)
			out.Items, err = s.open(row)
		}
		return err
	})
	return out, err
}

// Items returns the items of a variable as it is now; none when it does not exist. The caller checks the rights.
func (s *Service) Items(namespace, path string) (map[string]string, error) {
	row := s.State.Read().Variable(namespace, path)
	if row == nil {
		return nil, nil
	}
	return s.open(row)
}

// Apply changes a variable.
func (s *Service) Apply(ctx context.Context, r *api.VariableApplyRequest) (*api.VariableApplyResponse, error) {
	namespace, right := cmp.Or(r.Namespace, api.DefaultNamespace), "write"
	if r.Op == api.VariableDelete || r.Op == api.VariableDeleteCAS {
		right = "destroy"
	}
	if !may(ctx, namespace, r.Path, right) {
		return nil, access.ErrDenied
	}
	if err := checkPath(r.Path); err != nil {
		return nil, err
	}
	fresh := uuid.NewString()
	cmd, err := s.command(ctx, r, namespace, fresh)
	if err != nil {
		return nil, err
	}
	res, err := s.Raft.Propose(ctx, cmd)
	if err != nil {
		return nil, err
	}
	done, ok := res.Value.(*outcome)
	if !ok {
		return nil, fault.New(fault.Internal, "the change of a variable returned a %T", res.Value)
	}
	out := &api.VariableApplyResponse{Conflict: done.conflict, WriteMeta: api.WriteMeta{Index: res.Index}}
	if done.row == nil || done.locked && right == "write" && r.Op != api.VariableSet && r.Op != api.VariableCAS {
		out.Meta = &api.VariableMeta{Namespace: namespace, Path: r.Path}
		return out, nil
	}
	out.Meta = mask.Redacted(&done.row.VariableMeta)
	switch {
	case r.Op == api.VariableRelease:
		return out, nil
	case r.Op == api.VariableAcquire:
		s.renew(done.row.Lock)
		out.Meta.Lock = withID(done.row.Lock, fresh, r.Lock)
	case !done.conflict && r.Lock != nil && done.row.Lock != nil:
		out.Meta.Lock = withID(done.row.Lock, "", r.Lock)
	}
	if !done.conflict && len(r.Items) > 0 {
		out.Items = r.Items
	} else if may(ctx, namespace, r.Path, "read") {
		if out.Items, err = s.open(done.row); err != nil { // the change was made, and its result has more than the items
			s.Log.Warn("the result of a change lacks the items", "namespace", namespace, "path", r.Path, "error", err)
		}
	}
	return out, nil
}

// withID returns a stored lock with its id for the holder: the id that the request has, or the fresh one.
func withID(stored *api.VariableLock, fresh string, asked *api.VariableLock) *api.VariableLock {
	l := *stored
	l.ID = fresh
	if asked != nil && state.SecretHash(asked.ID) == stored.ID {
		l.ID = asked.ID
	}
	return &l
}

// command makes the command of a request. Its items are encrypted, and the ids of locks, of which fresh is that of a new
// one, are hashed.
func (s *Service) command(ctx context.Context, r *api.VariableApplyRequest, namespace, fresh string) (fsm.Command, error) {
	lock := ""
	if r.Lock != nil {
		lock = state.SecretHash(r.Lock.ID)
	}
	switch r.Op {
	case api.VariableDelete, api.VariableDeleteCAS:
		return &Delete{Op: r.Op, Namespace: namespace, Path: r.Path, CheckIndex: r.CheckIndex, LockID: lock}, nil
	case api.VariableRelease:
		return &Release{Namespace: namespace, Path: r.Path, LockID: lock}, nil
	case api.VariableSet, api.VariableCAS, api.VariableAcquire:
		if s.ended(lock) {
			lock = "" // it permits nothing in its delay
		}
	default:
		return nil, fault.New(fault.Invalid, "operation %q on variables is not known", r.Op)
	}
	set := &Set{Op: r.Op, Row: &api.VariableRow{VariableMeta: api.VariableMeta{Namespace: namespace, Path: r.Path}}, CheckIndex: r.CheckIndex, LockID: lock}
	if r.Op == api.VariableAcquire {
		var err error
		if set.Row.Lock, err = newLock(r.Lock); err != nil {
			return nil, err
		}
		set.Row.Lock.ID = state.SecretHash(fresh)
		set.Keep = len(r.Items) == 0
	} else if len(r.Items) == 0 {
		return nil, errNoItems
	}
	if err := checkItems(r.Items); err != nil {
		return nil, err
	}
	if s.State.Read().Namespace(namespace) == nil {
		return nil, fault.New(fault.Invalid, "nonexistent namespace %q: create it first", namespace)
	}
	return set, s.seal(ctx, set.Row, r.Items)
}
