package regions

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/retry"
	"github.com/open-nomad/open-nomad/nomad/state"
)

const (
	replicatePause = time.Second
	// replicateBatch bounds the rows of one entry of the log.
	replicateBatch = 256
	// replicateAtOnce bounds the rows that are read from the authoritative region at once.
	replicateAtOnce = 8
)

// Replicate copies what the authoritative region has, while this server leads another region.
func (s *Regions) Replicate(ctx context.Context) error {
	if !s.Elsewhere() {
		return nil
	}
	if s.ReplicationToken == "" {
		s.Log.Warn("global tokens and policies are not copied to this region: set acl.replication_token", "authoritative_region", s.Authoritative)
		return nil
	}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return follow(ctx, s, policyCopies) })
	all.Go(func() error { return follow(ctx, s, roleCopies) })
	all.Go(func() error { return follow(ctx, s, tokenCopies) })
	all.Go(func() error { return follow(ctx, s, methodCopies) })
	all.Go(func() error { return follow(ctx, s, ruleCopies) })
	return all.Wait()
}

// copies is how the rows of a table are copied.
type copies[T any] struct {
	table string
	// list returns the rows of the authoritative region, maybe without their secrets, and get one row with them.
	list func(context.Context, wire.Caller, api.QueryOptions) ([]*T, uint64, error)
	get  func(ctx context.Context, c wire.Caller, key string, q api.QueryOptions) (*T, error)
	// here are the rows of this region that are copies.
	here func(*state.Txn) iter.Seq[*T]
	key  func(*T) string
	hash func(*T) []byte
	add  func(*Replicate, *T)
}

var policyCopies = copies[api.ACLPolicy]{
	table: state.TableACLPolicies,
	list: func(ctx context.Context, c wire.Caller, q api.QueryOptions) ([]*api.ACLPolicy, uint64, error) {
		out, err := wire.ACLPolicyList.Call(ctx, c, &q)
		if err != nil {
			return nil, 0, err
		}
		return out.Policies, out.Index, nil
	},
	get: func(ctx context.Context, c wire.Caller, key string, q api.QueryOptions) (*api.ACLPolicy, error) {
		out, err := wire.ACLPolicyGet.Call(ctx, c, &api.NameRequest{Name: key, QueryOptions: q})
		if err != nil {
			return nil, err
		}
		return out.Policy, nil
	},
	here: (*state.Txn).ACLPolicies,
	key:  func(p *api.ACLPolicy) string { return p.Name },
	hash: func(p *api.ACLPolicy) []byte { return p.Hash },
	add:  func(c *Replicate, p *api.ACLPolicy) { c.Policies = append(c.Policies, p) },
}

var roleCopies = copies[api.ACLRole]{
	table: state.TableACLRoles,
	list: func(ctx context.Context, c wire.Caller, q api.QueryOptions) ([]*api.ACLRole, uint64, error) {
		out, err := wire.ACLRoleList.Call(ctx, c, &q)
		if err != nil {
			return nil, 0, err
		}
		return out.Roles, out.Index, nil
	},
	get: func(ctx context.Context, c wire.Caller, key string, q api.QueryOptions) (*api.ACLRole, error) {
		out, err := wire.ACLRoleGet.Call(ctx, c, &api.ACLRoleRequest{ID: key, QueryOptions: q})
		if err != nil {
			return nil, err
		}
		return out.Role, nil
	},
	here: (*state.Txn).ACLRoles,
	key:  func(r *api.ACLRole) string { return r.ID },
	hash: func(r *api.ACLRole) []byte { return r.Hash },
	add:  func(c *Replicate, r *api.ACLRole) { c.Roles = append(c.Roles, r) },
}

var tokenCopies = copies[api.ACLToken]{
	table: state.TableACLTokens,
	list: func(ctx context.Context, c wire.Caller, q api.QueryOptions) ([]*api.ACLToken, uint64, error) {
		out, err := wire.ACLTokenList.Call(ctx, c, &api.ACLTokenListRequest{GlobalOnly: true, QueryOptions: q})
		if err != nil {
			return nil, 0, err
		}
		return out.Tokens, out.Index, nil
	},
	get: func(ctx context.Context, c wire.Caller, key string, q api.QueryOptions) (*api.ACLToken, error) {
		out, err := wire.ACLTokenGet.Call(ctx, c, &api.ACLTokenRequest{AccessorID: key, QueryOptions: q})
		if err != nil {
			return nil, err
		}
		return out.Token, nil
	},
	here: func(tx *state.Txn) iter.Seq[*api.ACLToken] {
		return func(yield func(*api.ACLToken) bool) {
			for t := range tx.ACLTokens() {
				if t.Global && !yield(t) {
					return
				}
			}
		}
	},
	key:  func(t *api.ACLToken) string { return t.AccessorID },
	hash: func(t *api.ACLToken) []byte { return t.Hash },
	add:  func(c *Replicate, t *api.ACLToken) { c.Tokens = append(c.Tokens, t) },
}

var methodCopies = copies[api.ACLAuthMethod]{
	table: state.TableACLAuthMethods,
	list: func(ctx context.Context, c wire.Caller, q api.QueryOptions) ([]*api.ACLAuthMethod, uint64, error) {
		out, err := wire.ACLAuthMethodList.Call(ctx, c, &q)
		if err != nil {
			return nil, 0, err
		}
		return out.Methods, out.Index, nil
	},
	get: func(ctx context.Context, c wire.Caller, key string, q api.QueryOptions) (*api.ACLAuthMethod, error) {
		out, err := wire.ACLAuthMethodGet.Call(ctx, c, &api.NameRequest{Name: key, QueryOptions: q})
		if err != nil {
			return nil, err
		}
		return out.Method, nil
	},
	here: (*state.Txn).ACLAuthMethods,
	key:  func(m *api.ACLAuthMethod) string { return m.Name },
	hash: func(m *api.ACLAuthMethod) []byte { return m.Hash },
	add:  func(c *Replicate, m *api.ACLAuthMethod) { c.Methods = append(c.Methods, m) },
}

var ruleCopies = copies[api.ACLBindingRule]{
	table: state.TableACLBindingRules,
	list: func(ctx context.Context, c wire.Caller, q api.QueryOptions) ([]*api.ACLBindingRule, uint64, error) {
		out, err := wire.ACLBindingRuleList.Call(ctx, c, &q)
		if err != nil {
			return nil, 0, err
		}
		return out.Rules, out.Index, nil
	},
	get: func(ctx context.Context, c wire.Caller, key string, q api.QueryOptions) (*api.ACLBindingRule, error) {
		out, err := wire.ACLBindingRuleGet.Call(ctx, c, &api.NameRequest{Name: key, QueryOptions: q})
		if err != nil {
			return nil, err
		}
		return out.Rule, nil
	},
	here: (*state.Txn).ACLBindingRules,
	key:  func(r *api.ACLBindingRule) string { return r.ID },
	hash: func(r *api.ACLBindingRule) []byte { return r.Hash },
	add:  func(c *Replicate, r *api.ACLBindingRule) { c.Rules = append(c.Rules, r) },
}

// follow copies a table whenever it changes in the authoritative region, and every few minutes.
func follow[T any](ctx context.Context, s *Regions, k copies[T]) error {
	pauses, index := retry.Between(replicatePause, time.Minute), uint64(0)
	for ctx.Err() == nil {
		next, err := k.copy(ctx, s, index)
		if err != nil {
			if ctx.Err() == nil {
				s.Log.Warn("a table of the authoritative region was not copied", "table", k.table, "region", s.Authoritative, "error", err)
			}
			pauses.Wait(ctx)
			continue
		}
		index = next
		pauses.Reset()
		retry.Sleep(ctx, replicatePause)
	}
	return ctx.Err()
}

// copy waits for an index of the authoritative region above the given one, and makes this region's rows the same.
func (k copies[T]) copy(ctx context.Context, s *Regions, index uint64) (uint64, error) {
	q := api.QueryOptions{Region: s.Authoritative, AuthToken: s.ReplicationToken, MinIndex: index}
	rows, next, err := k.list(ctx, s.Servers, q)
	if err != nil {
		return index, err
	}
	q.MinIndex = 0
	if err := s.mayReplicate(ctx, q); err != nil {
		return index, err
	}
	gone := map[string][]byte{}
	for row := range k.here(s.State.Read()) {
		gone[k.key(row)] = k.hash(row)
	}
	var wanted []string
	for _, row := range rows {
		key := k.key(row)
		if h, here := gone[key]; !here || !bytes.Equal(h, k.hash(row)) {
			wanted = append(wanted, key)
		}
		delete(gone, key)
	}
	cmd := &Replicate{Table: k.table}
	for key := range gone {
		cmd.Gone = append(cmd.Gone, key)
	}
	slices.Sort(cmd.Gone)
	if len(cmd.Gone) > 0 {
		if _, err := s.Raft.Propose(ctx, cmd); err != nil {
			return index, err
		}
	}
	for keys := range slices.Chunk(wanted, replicateBatch) {
		batch, err := k.fetch(ctx, s, keys, q)
		if err != nil {
			return index, err
		}
		if _, err := s.Raft.Propose(ctx, batch); err != nil {
			return index, err
		}
	}
	return next, nil
}

// mayReplicate checks that the replication token is a management token: lists show others a part of the rows, and the
// rest would be deleted here.
func (s *Regions) mayReplicate(ctx context.Context, q api.QueryOptions) error {
	self, err := wire.ACLWhoAmI.Call(ctx, s.Servers, &q)
	if err == nil && (self.Token == nil || self.Token.Type != api.ACLManagementToken) {
		err = fault.New(fault.Denied, "acl.replication_token is not a management token of region %q", q.Region)
	}
	return err
}

// fetch reads rows of the authoritative region, and encrypts their secrets with the keys of this one. Rows that were deleted
// since they were listed are left out.
func (k copies[T]) fetch(ctx context.Context, s *Regions, keys []string, q api.QueryOptions) (*Replicate, error) {
	var mu sync.Mutex
	cmd := &Replicate{Table: k.table}
	reads, reading := errgroup.WithContext(ctx)
	reads.SetLimit(replicateAtOnce)
	for _, key := range keys {
		reads.Go(func() error {
			row, err := k.get(reading, s.Servers, key, q)
			if err != nil || row == nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			k.add(cmd, row)
			return nil
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	for i, t := range cmd.Tokens {
		sealed, err := s.Secrets.SealToken(ctx, t)
		if err != nil {
			return nil, err
		}
		cmd.Tokens[i] = sealed
	}
	return cmd, nil
}
