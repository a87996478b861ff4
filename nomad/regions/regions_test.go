package regions_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/regions"
	"github.com/open-nomad/open-nomad/nomad/secrets/secretstest"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// fixture is the authoritative region.
type fixture struct {
	*acl.Service
	t *testing.T
}

func open(t *testing.T) *fixture {
	s := state.New()
	return &fixture{acl.New(acl.Config{Secrets: secretstest.NewBox(), State: s, Raft: fsm.NewLocal(s, fsm.NewRegistry(acl.Commands)), Enabled: true}), t}
}

func (f *fixture) policy(names ...string) {
	f.t.Helper()
	for _, n := range names {
		if _, err := f.UpsertPolicies(f.t.Context(), &api.ACLPolicyUpsertRequest{Policies: []*api.ACLPolicy{{Name: n, Rules: `node { policy = "read" }`}}}); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fixture) token(token *api.ACLToken) *api.ACLToken {
	f.t.Helper()
	out, err := f.UpsertToken(f.t.Context(), &api.ACLTokenUpsertRequest{Token: token})
	if err != nil {
		f.t.Fatal(err)
	}
	return out.Token
}

// other is a region that is not authoritative.
type other struct {
	*regions.Regions
	service *acl.Service
}

// region is the way to the servers of the authoritative region.
type region struct {
	t        *testing.T
	gate     *access.Gate
	handlers []wire.Handler
}

func (r region) Invoke(ctx context.Context, method string, req, resp any) error {
	var to, secret string
	switch q := req.(type) {
	case interface{ Options() *api.QueryOptions }:
		to, secret = q.Options().Region, q.Options().AuthToken
	case interface{ Writes() *api.WriteRequest }:
		to, secret = q.Writes().Region, q.Writes().SecretID
	}
	if to != "first" || secret != "replication" {
		r.t.Errorf("%s in region %q with %q", method, to, secret)
	}
	i := slices.IndexFunc(r.handlers, func(h wire.Handler) bool { return h.Name == method })
	if i < 0 {
		return fault.New(fault.Unimplemented, "unknown method %s", method)
	}
	ctx, err := r.gate.Admit(ctx, r.handlers[i].Needs, req)
	if err != nil {
		return err
	}
	got, err := r.handlers[i].Serve(ctx, req)
	if err == nil {
		reflect.ValueOf(resp).Elem().Set(reflect.ValueOf(got).Elem())
	}
	return err
}

// second is a region whose authoritative region is f. The replication token has the type.
func (f *fixture) second(kind string) other {
	tx := f.State.Write(f.State.Read().Index()+1, time.Now())
	tx.PutACLToken(&api.ACLToken{AccessorID: "replicator", SecretID: "replication", Type: kind})
	tx.Commit()
	method, rule := &api.ACLAuthMethod{Name: "m", Hash: []byte("m")}, &api.ACLBindingRule{ID: "r", AuthMethod: "m"}
	bare := *method
	method.Config = &api.ACLAuthMethodConfig{OIDCClientSecret: "hunter2"}
	meta := api.QueryMeta{Index: 1}
	wait := func(ctx context.Context, q *api.QueryOptions) error {
		if q.MinIndex > 0 {
			<-ctx.Done()
		}
		return ctx.Err()
	}
	s := state.New()
	log := fsm.NewLocal(s, fsm.NewRegistry(acl.Commands, regions.Commands))
	return other{&regions.Regions{
		Secrets: secretstest.NewBox(),
		Log:     hclog.NewNullLogger(), State: s, Raft: log, Region: "second", Authoritative: "first", ReplicationToken: "replication",
		Servers: region{f.t, access.New(access.Config{State: f.State, Enabled: true}), append(f.Handlers(),
			wire.ACLAuthMethodList.Handle(func(ctx context.Context, q *api.QueryOptions) (*api.ACLAuthMethodListResponse, error) {
				return &api.ACLAuthMethodListResponse{Methods: []*api.ACLAuthMethod{&bare}, QueryMeta: meta}, wait(ctx, q)
			}),
			wire.ACLAuthMethodGet.Handle(func(context.Context, *api.NameRequest) (*api.ACLAuthMethodResponse, error) {
				return &api.ACLAuthMethodResponse{Method: method, QueryMeta: meta}, nil
			}),
			wire.ACLBindingRuleList.Handle(func(ctx context.Context, q *api.QueryOptions) (*api.ACLBindingRuleListResponse, error) {
				return &api.ACLBindingRuleListResponse{Rules: []*api.ACLBindingRule{rule}, QueryMeta: meta}, wait(ctx, q)
			}),
			wire.ACLBindingRuleGet.Handle(func(context.Context, *api.NameRequest) (*api.ACLBindingRuleResponse, error) {
				return &api.ACLBindingRuleResponse{Rule: rule, QueryMeta: meta}, nil
			}),
		)},
	}, acl.New(acl.Config{Secrets: secretstest.NewBox(), State: s, Raft: log, Enabled: true, Copies: true})}
}

// Another region gets the global objects, loses those that the authoritative region does not have, and keeps local tokens.
func TestOtherRegionsFollow(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.policy("p", "deleted")
	made, err := f.UpsertRole(t.Context(), &api.ACLRoleUpsertRequest{Role: &api.ACLRole{Name: "r", Policies: []*api.ACLRolePolicyLink{{Name: "p"}}}})
	if err != nil {
		t.Fatal(err)
	}
	role := made.Role
	global := f.token(&api.ACLToken{Type: "client", Global: true, Roles: []*api.ACLTokenRoleLink{{Name: "r"}}})
	here := f.token(&api.ACLToken{Type: "management"})
	second := f.second(api.ACLManagementToken)
	tx := second.State.Write(second.State.Read().Index()+1, time.Now())
	tx.PutACLToken(&api.ACLToken{AccessorID: "local", SecretID: "local"})
	tx.PutACLToken(&api.ACLToken{AccessorID: "stray", SecretID: "stray", Global: true})
	tx.PutACLRole(&api.ACLRole{ID: "stray", Name: "r"})
	tx.Commit()

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	done := make(chan error, 1)
	go func() { done <- second.Replicate(ctx) }()
	defer func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	until := func(what string, holds func(*state.Txn) bool) {
		t.Helper()
		keys := []state.Key{
			state.TableKey(state.TableACLTokens), state.TableKey(state.TableACLPolicies), state.TableKey(state.TableACLRoles),
			state.TableKey(state.TableACLAuthMethods), state.TableKey(state.TableACLBindingRules),
		}
		if err := state.Until(ctx, second.State, keys, holds); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	until("first copy", func(tx *state.Txn) bool {
		m := tx.ACLAuthMethod("m")
		return tx.ACLPolicy("deleted") != nil && tx.ACLTokenBySecret(global.SecretID) != nil && tx.ACLToken("stray") == nil &&
			tx.ACLRole("stray") == nil && tx.ACLRole(role.ID) != nil && m != nil && m.Config.OIDCClientSecret == "hunter2" && tx.ACLBindingRule("r") != nil
	})
	if tx := second.State.Read(); tx.ACLToken("local") == nil || tx.ACLToken(here.AccessorID) != nil {
		t.Error("local tokens were copied or deleted")
	}
	if _, err := f.DeletePolicy(t.Context(), &api.NameWriteRequest{Name: "deleted"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.UpsertPolicies(t.Context(), &api.ACLPolicyUpsertRequest{Policies: []*api.ACLPolicy{{Name: "p", Description: "new", Rules: `node { policy = "write" }`}}}); err != nil {
		t.Fatal(err)
	}
	until("second copy", func(tx *state.Txn) bool {
		p := tx.ACLPolicy("p")
		return tx.ACLPolicy("deleted") == nil && p != nil && p.Description == "new"
	})
}

// A token that sees a part of the rows only would delete the rest.
func TestAWeakReplicationTokenDeletesNothing(t *testing.T) {
	t.Parallel()
	f := open(t)
	second := f.second(api.ACLClientToken)
	tx := second.State.Write(second.State.Read().Index()+1, time.Now())
	tx.PutACLPolicy(&api.ACLPolicy{Name: "p"})
	tx.PutACLRole(&api.ACLRole{ID: "r"})
	tx.Commit()
	refusals := &lines{to: make(chan string, 100)}
	second.Log = hclog.New(&hclog.LoggerOptions{Output: refusals})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- second.Replicate(ctx) }()
	for want := map[string]bool{"acl_policies": true, "acl_roles": true}; len(want) > 0; {
		select {
		case line := <-refusals.to:
			for table := range want {
				if strings.Contains(line, "table="+table) && strings.Contains(line, "not a management token") {
					delete(want, table)
				}
			}
		case <-ctx.Done():
			t.Fatalf("no refusal for %v", want)
		}
	}
	cancel()
	<-done
	if now := second.State.Read(); now.ACLPolicy("p") == nil || now.ACLRole("r") == nil {
		t.Error("a row was deleted")
	}
}

// lines sends what is logged.
type lines struct{ to chan string }

func (l *lines) Write(b []byte) (int, error) {
	select {
	case l.to <- string(b):
	default:
	}
	return len(b), nil
}

// Writes of global objects go to the authoritative region, those of local tokens stay.
func TestGlobalObjectsAreWrittenInTheAuthoritativeRegion(t *testing.T) {
	t.Parallel()
	f := open(t)
	second := f.second(api.ACLManagementToken)
	w := api.WriteRequest{Region: "second", SecretID: "replication"}
	call := func(name string, req any) any {
		t.Helper()
		handlers := second.Forwarded(second.service.Handlers()...)
		out, err := handlers[slices.IndexFunc(handlers, func(h wire.Handler) bool { return h.Name == name })].Serve(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	token := func(global bool) *api.ACLToken {
		t.Helper()
		r := &api.ACLTokenUpsertRequest{Token: &api.ACLToken{Type: "client", Policies: []string{"p"}, Global: global}, WriteRequest: w}
		return call(wire.ACLTokenUpsert.Name, r).(*api.ACLTokenWriteResponse).Token
	}
	call(wire.ACLPolicyUpsert.Name, &api.ACLPolicyUpsertRequest{Policies: []*api.ACLPolicy{{Name: "p", Rules: `node { policy = "read" }`}}, WriteRequest: w})
	made, local := token(true), token(false)
	first, there := f.State.Read(), second.State.Read()
	if first.ACLPolicy("p") == nil || there.ACLPolicy("p") != nil || first.ACLToken(made.AccessorID) == nil || there.ACLToken(made.AccessorID) != nil ||
		first.ACLToken(local.AccessorID) != nil || there.ACLToken(local.AccessorID) == nil {
		t.Error("an object is in the wrong region")
	}
}
