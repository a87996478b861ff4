package access_test

import (
	"crypto/ed25519"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// signer adds a root key to the state and an identity service to the gate.
func (f *fixture) signer(tb testing.TB) *identity.Service {
	tb.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		tb.Fatal(err)
	}
	f.write(func(tx *state.Txn) {
		tx.PutRootKey(&api.RootKey{RootKeyMeta: api.RootKeyMeta{KeyID: "k"}, PublicEd25519: public})
	})
	f.Identities = identity.New(identity.Config{
		State: f.state, Region: "global", Now: func() time.Time { return f.now },
		Active: func() (*identity.Key, error) { return &identity.Key{ID: "k", Ed25519: private}, nil },
	})
	return f.Identities
}

// workload puts a running allocation and returns an identity of its task.
func (f *fixture) workload(tb testing.TB, ns, job, parent, group, task string, ttl time.Duration) string {
	tb.Helper()
	alloc := "alloc of " + job
	f.write(func(tx *state.Txn) {
		j := &api.Job{ID: job, ParentID: parent, Namespace: ns, TaskGroups: []*api.TaskGroup{{Name: group, Tasks: []*api.Task{{Name: task}}}}}
		tx.PutJob(j)
		tx.PutAlloc(&api.Allocation{ID: alloc, Namespace: ns, JobID: job, Job: j, TaskGroup: group, ClientStatus: api.AllocClientStatusRunning})
	})
	token, _, err := f.Identities.Sign(tb.Context(), &identity.Claims{
		Audience: []string{identity.AudienceWorkload}, Namespace: ns, JobID: identity.JobOf(&api.Job{ID: job, ParentID: parent}), AllocationID: alloc, Task: task, TTL: ttl,
	}, identity.EdDSA)
	if err != nil {
		tb.Fatal(err)
	}
	return token
}

func TestWorkloadsHaveThePoliciesOfTheirJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.signer(t)
	attach := func(name string, to api.JobACL) {
		f.write(func(tx *state.Txn) {
			tx.PutACLPolicy(&api.ACLPolicy{Name: name, Rules: `namespace "` + name + `" { policy = "write" }`, JobACL: &to})
		})
	}
	attach("job", api.JobACL{Namespace: "default", JobID: "web"})
	attach("group", api.JobACL{Namespace: "default", JobID: "web", Group: "g"})
	attach("task", api.JobACL{Namespace: "default", JobID: "web", Group: "g", Task: "t"})
	attach("other-group", api.JobACL{Namespace: "default", JobID: "web", Group: "h"})
	attach("other-task", api.JobACL{Namespace: "default", JobID: "web", Group: "g", Task: "u"})
	attach("other-namespace", api.JobACL{Namespace: "dev", JobID: "web"})
	attach("other-job", api.JobACL{Namespace: "default", JobID: "db"})
	f.token("unattached", `namespace "unattached" { policy = "write" }`)
	for what, token := range map[string]string{
		"a job":            f.workload(t, "default", "web", "", "g", "t", 0),
		"a dispatched job": f.workload(t, "default", "web/dispatch-1", "web", "g", "t", 0),
	} {
		c, err := f.Caller(token)
		if err != nil {
			t.Fatal(what, err)
		}
		if got := slices.Sorted(slices.Values(c.Token.Policies)); !slices.Equal(got, []string{"group", "job", "task"}) {
			t.Errorf("%s: %v", what, got)
		}
		for _, ns := range []string{"job", "group", "task", "other-group", "other-task", "other-namespace", "other-job", "unattached", "default"} {
			err := admits(t, f, token, ns)
			if (err == nil) != slices.Contains(c.Token.Policies, ns) {
				t.Errorf("%s in %s: %v", what, ns, err)
			}
		}
		if _, err := f.Admit(t.Context(), wire.ACLOneTimeToken.Needs, &api.OneTimeTokenRequest{WriteRequest: api.WriteRequest{SecretID: token}}); !errors.Is(err, access.ErrDenied) {
			t.Errorf("a one-time token for an identity: %v", err)
		}
	}
}

func admits(t *testing.T, f *fixture, token, ns string) error {
	t.Helper()
	_, err := f.Admit(t.Context(), wire.JobList.Needs, &api.JobListRequest{QueryOptions: query(token, ns)})
	return err
}

func TestWorkloadsReadTheirOwnVariables(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.signer(t)
	f.write(func(tx *state.Txn) {
		tx.PutACLPolicy(&api.ACLPolicy{Name: "p", JobACL: &api.JobACL{Namespace: "default", JobID: "web"}, Rules: `
			namespace "default" { variables { path "nomad/jobs/web/*" { capabilities = ["write"] } path "nomad/jobs/web/g/t" { capabilities = ["deny"] } } }`})
	})
	may := func(token string, paths, operations string, want bool) {
		t.Helper()
		c, err := f.Caller(token)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range strings.Fields(paths) {
			for _, o := range strings.Fields(operations) {
				if ns, path, _ := strings.Cut(p, ":"); c.Rights.Variables(ns, path, o) != want {
					t.Errorf("%s of %s is not %v", o, p, want)
				}
			}
		}
	}
	db := f.workload(t, "default", "db", "", "g", "t", 0)
	may(db, "default:nomad/jobs default:nomad/jobs/db default:nomad/jobs/db/g default:nomad/jobs/db/g/t", "list read", true)
	may(db, "default:nomad/jobs default:nomad/jobs/db default:nomad/jobs/db/g default:nomad/jobs/db/g/t", "write destroy", false)
	may(db, `dev:nomad/jobs dev:nomad/jobs/db default:nomad default:nomad/jobs/web default:nomad/jobs/db2 default:nomad/jobs/db/h default:nomad/jobs/db/g/u
		default:nomad/jobs/db/g/t/x default:nomad/jobs/d default:nomad/jobs/ default:nomad/jobs/web/g/t default:other`, "list read write destroy", false)
	web := f.workload(t, "default", "web", "", "g", "t", 0)
	may(web, "default:nomad/jobs/web/g", "list read write", true) // by itself, and by the policy
	may(web, "default:nomad/jobs/web/g/t", "list read write", false)
	star := f.workload(t, "default", "*", "", "g", "t", 0)
	may(star, "default:nomad/jobs/*", "list read", true) // the name of a job is no glob
	may(star, "default:nomad/jobs/web default:nomad/jobs/web/g", "list read", false)
	dispatched := f.workload(t, "default", "db/dispatch-1", "db", "g", "t", 0)
	may(dispatched, "default:nomad/jobs/db/g/t", "list read", true)
	c, err := f.Caller(db)
	if err != nil {
		t.Fatal(err)
	}
	if v := c.Rights.Explain(api.Right{On: api.OnVariable, Any: []string{"read"}}, "default/nomad/jobs/db"); !v.Allowed || v.Policy != "" || !strings.Contains(v.Rule, "a workload") {
		t.Errorf("explain: %+v", v)
	}
}

func TestIdentitiesEndWithTheirAllocation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.signer(t)
	a := func() *api.Allocation { c := *f.state.Read().Alloc("alloc of web"); return &c }
	for what, change := range map[string]func(tx *state.Txn){
		"complete":       func(tx *state.Txn) { c := a(); c.ClientStatus = api.AllocClientStatusComplete; tx.PutAlloc(c) },
		"failed":         func(tx *state.Txn) { c := a(); c.ClientStatus = api.AllocClientStatusFailed; tx.PutAlloc(c) },
		"lost":           func(tx *state.Txn) { c := a(); c.ClientStatus = api.AllocClientStatusLost; tx.PutAlloc(c) },
		"of another job": func(tx *state.Txn) { c := a(); c.Job = &api.Job{ID: "other", Namespace: "default"}; tx.PutAlloc(c) },
		"removed":        func(tx *state.Txn) { tx.DeleteAlloc(a().ID) },
		"key removed":    func(tx *state.Txn) { tx.DeleteRootKey("k") },
	} {
		f.signer(t)
		token := f.workload(t, "default", "web", "", "g", "t", time.Hour)
		if _, err := f.Caller(token); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		f.write(change)
		if _, err := f.Caller(token); !errors.Is(err, access.ErrDenied) {
			t.Errorf("%s: %v", what, err)
		}
	}
	f.signer(t)
	token := f.workload(t, "default", "web", "", "g", "t", time.Hour)
	stopping := a()
	stopping.DesiredStatus = api.AllocDesiredStatusStop
	f.write(func(tx *state.Txn) { tx.PutAlloc(stopping) })
	if _, err := f.Caller(token); err != nil {
		t.Errorf("while the tasks stop: %v", err)
	}
	f.now = f.now.Add(2 * time.Hour)
	if _, err := f.Caller(token); !errors.Is(err, access.ErrDenied) {
		t.Errorf("expired: %v", err)
	}
}

func TestIdentitiesOfOtherUsesAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.signer(t)
	good := f.workload(t, "default", "web", "", "g", "t", 0)
	for what, c := range map[string]*identity.Claims{
		"another audience": {Audience: []string{"aws"}, AllocationID: "alloc of web", Namespace: "default", JobID: "web", Task: "t"},
		"a node":           {Audience: []string{identity.AudienceNode}, NodeID: "n1"},
		"an introduction":  {Audience: []string{identity.AudienceIntroduction}},
		"another job":      {Audience: []string{identity.AudienceWorkload}, AllocationID: "alloc of web", Namespace: "default", JobID: "db", Task: "t"},
	} {
		token, _, err := s.Sign(t.Context(), c, identity.EdDSA)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Caller(token); !errors.Is(err, access.ErrDenied) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := f.Caller(good[:len(good)-2]); !errors.Is(err, access.ErrDenied) {
		t.Errorf("a broken one: %v", err)
	}
	f.Identities = nil
	if _, err := f.Caller(good); !errors.Is(err, access.ErrDenied) {
		t.Errorf("without a service: %v", err)
	}
}

// TestAuthenticationWithoutAccessControl asks whose token a caller has.
func TestAuthenticationWithoutAccessControl(t *testing.T) {
	t.Parallel()
	for _, enabled := range []bool{false, true} {
		f := newFixture(t)
		f.Enabled = enabled
		f.signer(t)
		token := f.workload(t, "default", "web", "", "g", "t", 0)
		f.token("dev", `namespace "dev" { policy = "write" }`)
		check := f.Handlers()[0]
		for secret, want := range map[string]string{token: "identity alloc of web", "": "", "unknown": "", token + "x": "", "dev": "accessor of dev"} {
			r := &api.ACLCheckRequest{QueryOptions: query(secret, "")}
			ctx, err := f.Admit(t.Context(), check.Needs, r)
			got := ""
			if err == nil {
				var out any
				if out, err = check.Serve(ctx, r); err == nil {
					got = out.(*api.ACLCheckResponse).AccessorID
				}
			}
			refusal := error(access.ErrDenied)
			if secret == "" {
				refusal = fault.Unauthenticated
			}
			if got != want || want == "" && !errors.Is(err, refusal) {
				t.Errorf("enabled %v, %.10s: %q %v", enabled, secret, got, err)
			}
		}
	}
}

// BenchmarkIdentity admits calls of workloads: with an identity that is known, and with a new one each time.
func BenchmarkIdentity(b *testing.B) {
	f := newFixture(b)
	f.signer(b)
	f.write(func(tx *state.Txn) {
		tx.PutACLPolicy(&api.ACLPolicy{Name: "p", Rules: `namespace "default" { policy = "write" }`, JobACL: &api.JobACL{Namespace: "default", JobID: "web"}})
	})
	const batch = 1000
	for name, distinct := range map[string]bool{"cached": false, "uncached": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				tokens := make([]string, batch)
				for i := range tokens {
					if i == 0 || distinct {
						tokens[i] = f.workload(b, "default", "web", "", "g", "t", time.Duration(i)*time.Hour)
						continue
					}
					tokens[i] = tokens[0]
				}
				b.StartTimer()
				began := time.Now()
				for _, token := range tokens {
					if _, err := f.Admit(b.Context(), wire.JobList.Needs, &api.JobListRequest{QueryOptions: query(token, "")}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(time.Since(began).Nanoseconds())/1000/batch, "us/call")
			}
		})
	}
}
