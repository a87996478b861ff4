package access_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/state"
)

type fixture struct {
	*access.Gate
	state *state.Store
	now   time.Time
	index uint64
}

func newFixture(tb testing.TB) *fixture {
	tb.Helper()
	s := state.New()
	f := &fixture{state: s, now: time.Unix(1_000_000, 0), index: 10}
	f.Gate = access.New(access.Config{
		State: s, Enabled: true, Now: func() time.Time { return f.now },
		VerifyNode: func(_ context.Context, id, secret string) error {
			if id == "n1" && secret == "secret of n1" {
				return nil
			}
			return fault.New(fault.Denied, "wrong secret")
		},
	})
	return f
}

func (f *fixture) write(change func(tx *state.Txn)) {
	f.index++
	tx := f.state.Write(f.index, f.now)
	change(tx)
	tx.Commit()
}

// token makes a client token whose secret is its name, with one policy of the same name.
func (f *fixture) token(name, rules string) {
	f.write(func(tx *state.Txn) {
		tx.PutACLPolicy(&api.ACLPolicy{Name: name, Rules: rules})
		tx.PutACLToken(&api.ACLToken{AccessorID: "accessor of " + name, SecretID: name, Type: api.ACLClientToken, Policies: []string{name}})
	})
}

func query(secret, namespace string) api.QueryOptions {
	return api.QueryOptions{AuthToken: secret, Namespace: namespace}
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.token("dev", `namespace "dev" { policy = "write" }`)
	f.token("reader", `namespace "*" { policy = "read" }  node { policy = "read" }`)
	f.token("volumes", `namespace "dev" { capabilities = ["csi-write-volume"] }  plugin { policy = "read" }`)
	f.write(func(tx *state.Txn) {
		tx.PutACLToken(&api.ACLToken{AccessorID: "a", SecretID: "management", Type: api.ACLManagementToken})
		end := f.now
		tx.PutACLToken(&api.ACLToken{AccessorID: "b", SecretID: "expired", Type: api.ACLManagementToken, ExpirationTime: &end})
		tx.PutACLToken(&api.ACLToken{AccessorID: "c", SecretID: "dangling", Type: api.ACLClientToken, Policies: []string{"deleted"}, Roles: []*api.ACLTokenRoleLink{{ID: "deleted"}}})
		tx.PutACLRole(&api.ACLRole{ID: "r", Name: "r", Policies: []*api.ACLRolePolicyLink{{Name: "dev"}}})
		tx.PutACLToken(&api.ACLToken{AccessorID: "d", SecretID: "by role", Type: api.ACLClientToken, Roles: []*api.ACLTokenRoleLink{{ID: "r"}}})
	})
	job := func(secret, request, of string) *api.JobRegisterRequest {
		return &api.JobRegisterRequest{Job: &api.Job{ID: "j", Namespace: of}, WriteRequest: api.WriteRequest{SecretID: secret, Namespace: request}}
	}
	volume := func(secret, request string, of ...string) *api.VolumeCreateRequest {
		r := &api.VolumeCreateRequest{WriteRequest: api.WriteRequest{SecretID: secret, Namespace: request}}
		for _, ns := range of {
			r.Volumes = append(r.Volumes, &api.VolumeSpec{Namespace: ns})
		}
		return r
	}
	node := func(id, secret string) *api.NodeRequest {
		return &api.NodeRequest{NodeID: id, QueryOptions: query(secret, "")}
	}
	for _, test := range []struct {
		what  string
		needs wire.Needs
		req   any
		ok    bool
	}{
		{"no token on an open method", wire.StatusLeader.Needs, &api.QueryOptions{}, true},
		{"unknown token on an open method", wire.StatusLeader.Needs, &api.QueryOptions{AuthToken: "unknown"}, true},
		{"no token on a list", wire.JobList.Needs, &api.JobListRequest{QueryOptions: query("", "dev")}, false},
		{"unknown token", wire.JobList.Needs, &api.JobListRequest{QueryOptions: query("unknown", "dev")}, false},
		{"unknown token on a judged method", wire.NamespaceList.Needs, &api.QueryOptions{AuthToken: "unknown"}, false},
		{"expired management token", wire.JobList.Needs, &api.JobListRequest{QueryOptions: query("expired", "dev")}, false},
		{"token with deleted policies", wire.JobList.Needs, &api.JobListRequest{QueryOptions: query("dangling", "dev")}, false},
		{"token with a role", wire.JobList.Needs, &api.JobListRequest{QueryOptions: query("by role", "dev")}, true},
		{"own namespace", wire.JobList.Needs, &api.JobListRequest{QueryOptions: query("dev", "dev")}, true},
		{"foreign namespace", wire.JobList.Needs, &api.JobListRequest{QueryOptions: query("dev", "ops")}, false},
		{"no namespace is the default one", wire.JobList.Needs, &api.JobListRequest{QueryOptions: query("dev", "")}, false},
		{"all namespaces, of which one is permitted", wire.JobList.Needs, &api.JobListRequest{QueryOptions: query("dev", "*")}, true},
		{"a write in all namespaces", wire.JobDeregister.Needs, &api.JobDeregisterRequest{JobID: "j", WriteRequest: api.WriteRequest{SecretID: "dev", Namespace: "*"}}, false},
		{"job of the own namespace", wire.JobRegister.Needs, job("dev", "", "dev"), true},
		{"job of a foreign namespace", wire.JobRegister.Needs, job("dev", "", "ops"), false},
		{"the request's namespace counts, not that of the job", wire.JobRegister.Needs, job("dev", "ops", "dev"), false},
		{"the request's namespace overrides that of the job", wire.JobRegister.Needs, job("dev", "dev", "ops"), true},
		{"job without a namespace", wire.JobRegister.Needs, job("dev", "", ""), false},
		{"read policy does not register", wire.JobRegister.Needs, job("reader", "dev", "dev"), false},
		{"volume of the own namespace", wire.VolumeCreate.Needs, volume("volumes", "dev", "dev"), true},
		{"second volume of a foreign namespace", wire.VolumeCreate.Needs, volume("volumes", "dev", "dev", "ops"), false},
		{"volume names its namespace, the request another", wire.VolumeCreate.Needs, volume("volumes", "ops", "dev"), true},
		{"one volume without a namespace in a foreign request", wire.VolumeCreate.Needs, volume("volumes", "ops", "dev", ""), false},
		{"two rights, of which one is missing", wire.VolumeCreate.Needs, volume("dev", "dev", "dev"), false},
		{"management only", wire.SystemGC.Needs, &api.WriteRequest{SecretID: "reader"}, false},
		{"management", wire.SystemGC.Needs, &api.WriteRequest{SecretID: "management"}, true},
		{"any token, without one", wire.ACLOneTimeToken.Needs, &api.OneTimeTokenRequest{}, false},
		{"any token", wire.ACLOneTimeToken.Needs, &api.OneTimeTokenRequest{WriteRequest: api.WriteRequest{SecretID: "dangling"}}, true},
		{"node read", wire.NodeGet.Needs, node("n1", "reader"), true},
		{"node by its own secret", wire.NodeGet.Needs, node("n1", "secret of n1"), true},
		{"another node by that secret", wire.NodeGet.Needs, node("n2", "secret of n1"), false},
		{"list of nodes by the secret of a node", wire.NodeList.Needs, &api.NodeListRequest{QueryOptions: query("secret of n1", "")}, false},
		{"a row somewhere", wire.AllocGet.Needs, &api.AllocRequest{QueryOptions: query("dev", "")}, true},
		{"a row nowhere", wire.AllocGet.Needs, &api.AllocRequest{QueryOptions: query("volumes", "")}, false},
		{"needs without a caller", wire.Needs{}, &api.QueryOptions{AuthToken: "reader"}, false},
	} {
		ctx, err := f.Admit(t.Context(), test.needs, test.req)
		switch {
		case test.ok && err != nil, !test.ok && !errors.Is(err, access.ErrDenied):
			t.Errorf("%s: %v", test.what, err)
		case test.ok && !access.Enabled(ctx):
			t.Errorf("%s: the context has no caller", test.what)
		}
	}
}

func TestRowsAreCompared(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.token("dev", `namespace "dev" { policy = "read" }  namespace "list" { capabilities = ["list-jobs"] }`)
	ctx, err := f.Admit(t.Context(), wire.AllocGet.Needs, &api.AllocRequest{QueryOptions: query("dev", "")})
	if err != nil {
		t.Fatal(err)
	}
	missing := errors.New("missing")
	for ns, want := range map[string]error{"dev": nil, "list": access.ErrDenied, "ops": missing} {
		if access.Sees(ctx, ns) != (want == nil) {
			t.Errorf("%s: seen %t", ns, want != nil)
		}
		if err := access.Refusal(ctx, ns, missing); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", ns, err, want)
		}
	}
	if visible := access.Visible(ctx); !visible("dev") || visible("ops") {
		t.Error("lists show foreign rows, or hide own ones")
	}
}

// A token that is changed, deleted or expires is looked at again by reads that wait.
func TestAgain(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(f *fixture, tx *state.Txn){
		"token deleted": func(_ *fixture, tx *state.Txn) { tx.DeleteACLToken("accessor of dev") },
		"policy changed": func(_ *fixture, tx *state.Txn) {
			tx.PutACLPolicy(&api.ACLPolicy{Name: "dev", Rules: `namespace "dev" { policy = "deny" }`})
		},
		"policy deleted": func(_ *fixture, tx *state.Txn) { tx.DeleteACLPolicy("dev") },
		"token expired": func(f *fixture, tx *state.Txn) {
			end := f.now.Add(time.Minute)
			next := *tx.ACLToken("accessor of dev")
			next.ExpirationTime = &end
			tx.PutACLToken(&next)
			f.now = end
		},
	} {
		f := newFixture(t)
		f.token("dev", `namespace "dev" { policy = "read" }`)
		ctx, err := f.Admit(t.Context(), wire.JobList.Needs, &api.JobListRequest{QueryOptions: query("dev", "dev")})
		if err != nil {
			t.Fatal(err)
		}
		if err := access.Again(ctx); err != nil {
			t.Errorf("%s: before: %v", what, err)
		}
		f.write(func(tx *state.Txn) { change(f, tx) })
		if err := access.Again(ctx); !errors.Is(err, access.ErrDenied) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestOnNode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.token("dev", `namespace "dev" { policy = "write" }  namespace "seen" { policy = "read" }`)
	f.write(func(tx *state.Txn) {
		for _, ns := range []string{"dev", "seen", "ops"} {
			tx.PutAlloc(&api.Allocation{ID: "alloc in " + ns, Namespace: ns, Job: &api.Job{ID: "j", Namespace: ns}, JobID: "j"})
		}
	})
	logs := func(alloc string) error {
		_, err := f.AdmitOnNode(t.Context(), wire.ClientAllocLogs.Needs, &api.AllocLogsRequest{AllocID: alloc, QueryOptions: query("dev", "")})
		return err
	}
	if err := logs("alloc in dev"); err != nil {
		t.Error(err)
	}
	if err := logs("alloc in seen"); !errors.Is(err, access.ErrDenied) {
		t.Errorf("without read-logs: %v", err)
	}
	foreign, unknown := logs("alloc in ops"), logs("alloc in xyz")
	if !errors.Is(foreign, fault.NotFound) || !errors.Is(unknown, fault.NotFound) {
		t.Errorf("foreign: %v, unknown: %v", foreign, unknown)
	}
}

// TestCommandsOnTheNodeNeedBothRights: the namespace of the allocation counts for each right that a method needs.
func TestCommandsOnTheNodeNeedBothRights(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.token("one", `namespace "dev" { capabilities = ["alloc-exec"] }  namespace "other" { capabilities = ["alloc-node-exec"] }`)
	f.token("both", `namespace "dev" { capabilities = ["alloc-exec", "alloc-node-exec"] }`)
	f.write(func(tx *state.Txn) {
		tx.PutAlloc(&api.Allocation{ID: "a1", Namespace: "dev", Job: &api.Job{ID: "j", Namespace: "dev"}, JobID: "j"})
	})
	admit := func(needs wire.Needs, token string) error {
		accessor, err := f.AdmitOnNode(t.Context(), needs, &api.ExecRequest{AllocID: "a1", QueryOptions: query(token, "")})
		if err == nil && accessor == "" {
			t.Errorf("%s: no accessor", token)
		}
		return err
	}
	for _, token := range []string{"one", "both"} {
		if err := admit(wire.ClientAllocExec.Needs, token); err != nil {
			t.Errorf("%s in a task with files of its own: %v", token, err)
		}
	}
	if err := admit(wire.ClientAllocNodeExec.Needs, "one"); !errors.Is(err, access.ErrDenied) {
		t.Errorf("alloc-node-exec in another namespace: %v", err)
	}
	if err := admit(wire.ClientAllocNodeExec.Needs, "both"); err != nil {
		t.Error(err)
	}
}

func TestDisabled(t *testing.T) {
	t.Parallel()
	g := access.New(access.Config{})
	ctx, err := g.Admit(t.Context(), wire.SystemGC.Needs, &api.WriteRequest{SecretID: "anything"})
	if err != nil || access.Enabled(ctx) || !access.Sees(ctx, "any") || !access.Of(ctx).Rights.IsManagement() || access.Visible(ctx) != nil {
		t.Errorf("%v", err)
	}
}

// BenchmarkResolve finds what a token with 1,000 policies permits: cached, and after a change of another token.
func BenchmarkResolve(b *testing.B) {
	f := newFixture(b)
	names := make([]string, 0, 1000)
	f.write(func(tx *state.Txn) {
		for i := range 1000 {
			name := fmt.Sprint("policy-", i)
			names = append(names, name)
			tx.PutACLPolicy(&api.ACLPolicy{Name: name, Rules: fmt.Sprintf("namespace \"team-%d-*\" { policy = \"write\" }", i)})
		}
		tx.PutACLToken(&api.ACLToken{AccessorID: "a", SecretID: "s", Type: api.ACLClientToken, Policies: names})
	})
	req := &api.JobListRequest{QueryOptions: query("s", "team-500-x")}
	if _, err := f.Admit(b.Context(), wire.JobList.Needs, req); err != nil {
		b.Fatal(err)
	}
	const batch = 1000
	b.Run("cached", func(b *testing.B) {
		for b.Loop() {
			began := time.Now()
			for range batch {
				if _, err := f.Admit(b.Context(), wire.JobList.Needs, req); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(time.Since(began).Nanoseconds())/1000/batch, "us/call")
		}
	})
	b.Run("uncached", func(b *testing.B) {
		for b.Loop() {
			var took []time.Duration
			for i := range batch / 10 {
				f.write(func(tx *state.Txn) {
					tx.PutACLToken(&api.ACLToken{AccessorID: "other", SecretID: fmt.Sprint("other ", i), Type: api.ACLClientToken})
				})
				began := time.Now()
				if _, err := f.Admit(b.Context(), wire.JobList.Needs, req); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/call")
		}
	})
}
