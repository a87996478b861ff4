package acl_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/secrets/secretstest"
	"github.com/open-nomad/open-nomad/nomad/state"
)

type fixture struct {
	*acl.Service
	t   *testing.T
	now time.Time
}

func open(t *testing.T) *fixture {
	t.Helper()
	s := state.New()
	log := fsm.NewLocal(s, fsm.NewRegistry(acl.Commands))
	f := &fixture{t: t, now: time.Now()}
	log.Now = func() time.Time { return f.now }
	f.Service = acl.New(acl.Config{
		Secrets: secretstest.NewBox(),
		State:   s, Raft: log, Enabled: true, Dir: t.TempDir(), Now: func() time.Time { return f.now },
	})
	return f
}

func (f *fixture) policy(names ...string) {
	f.t.Helper()
	for _, n := range names {
		if _, err := f.UpsertPolicies(f.t.Context(), &api.ACLPolicyUpsertRequest{Policies: []*api.ACLPolicy{{Name: n, Rules: `node { policy = "read" }`}}}); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fixture) role(r *api.ACLRole) *api.ACLRole {
	f.t.Helper()
	out, err := f.UpsertRole(f.t.Context(), &api.ACLRoleUpsertRequest{Role: r})
	if err != nil {
		f.t.Fatal(err)
	}
	return out.Role
}

func (f *fixture) put(t *api.ACLToken) (*api.ACLToken, error) {
	out, err := f.UpsertToken(f.t.Context(), &api.ACLTokenUpsertRequest{Token: t})
	if err != nil {
		return nil, err
	}
	return out.Token, nil
}

func (f *fixture) token(t *api.ACLToken) *api.ACLToken {
	f.t.Helper()
	out, err := f.put(t)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// as is the context of a call with the token. Calls without one may do everything.
func (f *fixture) as(token *api.ACLToken) context.Context {
	f.t.Helper()
	gate := access.New(access.Config{State: f.State, Enabled: true, Now: func() time.Time { return f.now }})
	ctx, err := gate.Admit(f.t.Context(), wire.Needs{Who: wire.Judged}, &api.QueryOptions{AuthToken: token.SecretID})
	if err != nil {
		f.t.Fatal(err)
	}
	return ctx
}

func refused(t *testing.T, err error, class fault.Class, text string) {
	t.Helper()
	if !errors.Is(err, class) || err.Error() != text {
		t.Errorf("got %q (%v), want %q (%v)", err, fault.Of(err), text, class)
	}
}

func list(errs ...string) string {
	if len(errs) == 1 {
		return "1 error occurred:\n\t* " + errs[0] + "\n\n"
	}
	return strconv.Itoa(len(errs)) + " errors occurred:\n\t* " + strings.Join(errs, "\n\t* ") + "\n\n"
}

func TestBootstrapHappensOnce(t *testing.T) {
	t.Parallel()
	f := open(t)
	boot := func(secret string) (*api.ACLTokenWriteResponse, error) {
		return f.Bootstrap(t.Context(), &api.ACLBootstrapRequest{BootstrapSecret: secret})
	}
	for _, secret := range []string{"not-a-uuid", "{7ec4539c-4d11-0081-1c88-ec4b202ce83e}"} {
		_, err := boot(secret)
		refused(t, err, fault.Invalid, "invalid acl token")
	}
	const secret = "7ec4539c-4d11-0081-1c88-ec4b202ce83e"
	first, err := boot(secret)
	if err != nil {
		t.Fatal(err)
	}
	if k := first.Token; k.SecretID != secret || k.Type != api.ACLManagementToken || !k.Global || k.Name != "Bootstrap Token" || k.CreateIndex != first.Index {
		t.Errorf("token %+v", k)
	}
	done := "ACL bootstrap already done (reset index: " + strconv.FormatUint(first.Index, 10) + ")"
	_, err = boot("")
	refused(t, err, fault.Invalid, done)

	reset := filepath.Join(f.Dir, "acl-bootstrap-reset")
	for _, content := range []string{"what", strconv.FormatUint(first.Index-1, 10)} {
		if err := os.WriteFile(reset, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = boot("")
		refused(t, err, fault.Invalid, done)
	}
	if err := os.WriteFile(reset, []byte(strconv.FormatUint(first.Index, 10)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := boot("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(reset); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
	if f.State.Read().ACLTokenBySecret(second.Token.SecretID) == nil || f.State.Read().ACLTokenBySecret(secret) == nil {
		t.Error("one of the tokens is missing")
	}
}

// Callers without a token cannot fill the log.
func TestRefusalsOfOpenMethodsSpendNoEntry(t *testing.T) {
	t.Parallel()
	f := open(t)
	entries := 0
	f.Raft = counted{f.Raft, &entries}
	for range 2 {
		_, _ = f.Bootstrap(t.Context(), &api.ACLBootstrapRequest{})
		_, _ = f.Exchange(t.Context(), &api.OneTimeTokenExchangeRequest{OneTimeSecretID: "guess"})
	}
	if entries != 1 {
		t.Errorf("%d entries, want the bootstrap alone", entries)
	}
}

type counted struct {
	fsm.Proposer
	entries *int
}

func (c counted) Propose(ctx context.Context, cmd fsm.Command) (fsm.Result, error) {
	*c.entries++
	return c.Proposer.Propose(ctx, cmd)
}

// Of two exchanges that were proposed together one is applied.
func TestExchangeRaceIsDecidedInTheLog(t *testing.T) {
	t.Parallel()
	f := open(t)
	out, err := f.OneTimeToken(f.as(f.token(&api.ACLToken{Type: "management"})), &api.OneTimeTokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false} {
		if _, err := f.Raft.Propose(t.Context(), &acl.ExchangeOneTimeToken{Secret: state.SecretHash(out.OneTimeToken.OneTimeSecretID)}); (err == nil) != want {
			t.Errorf("exchange %d: %v", i, err)
		}
	}
}

// Of two bootstraps that were proposed together one is applied.
func TestBootstrapRaceIsDecidedInTheLog(t *testing.T) {
	t.Parallel()
	f := open(t)
	for i, want := range []bool{true, false} {
		id := strconv.Itoa(i)
		_, err := f.Raft.Propose(t.Context(), &acl.Bootstrap{Token: &api.ACLToken{AccessorID: id, SecretID: id, SecretHash: state.SecretHash(id)}})
		if (err == nil) != want || (f.State.Read().ACLToken(id) != nil) != want {
			t.Errorf("bootstrap %d: %v", i, err)
		}
	}
}

func TestTokensAreChecked(t *testing.T) {
	t.Parallel()
	f := open(t)
	soon, late := f.now.Add(time.Second), f.now.Add(25*time.Hour)
	for want, token := range map[string]*api.ACLToken{
		list("client token missing policies or roles"):                                                            {Type: "client"},
		list("token type must be client or management"):                                                           {Type: "boss"},
		list("management token cannot be associated with policies or roles"):                                      {Type: "management", Policies: []string{"p"}},
		list("token name too long"):                                                                               {Type: "management", Name: strings.Repeat("n", 257)},
		list("cannot find role r"):                                                                                {Type: "client", Roles: []*api.ACLTokenRoleLink{{Name: "r"}}},
		list("expiration time cannot be less than 1m0s in the future"):                                            {Type: "management", ExpirationTTL: time.Second},
		list("expiration time cannot be more than 24h0m0s in the future"):                                         {Type: "management", ExpirationTime: &late},
		list("set either the expiration time or the expiration TTL, not both"):                                    {Type: "management", ExpirationTTL: time.Hour, ExpirationTime: &late},
		list("expiration time cannot be less than 1m0s in the future", "token type must be client or management"): {ExpirationTime: &soon},
	} {
		_, err := f.put(token)
		refused(t, err, fault.Invalid, "token 0 invalid: "+want)
	}
}

func TestWhatIsPermanentAboutATokenStays(t *testing.T) {
	t.Parallel()
	f := open(t)
	made := f.token(&api.ACLToken{Name: "a", Type: "client", Policies: []string{"p", "p"}, ExpirationTTL: time.Hour})
	if len(made.Policies) != 1 || !made.ExpirationTime.Equal(made.CreateTime.Add(time.Hour)) {
		t.Errorf("made %+v", made)
	}
	next := f.token(&api.ACLToken{AccessorID: made.AccessorID, Name: "b", Policies: []string{"q"}})
	if next.Name != "b" || next.SecretID != made.SecretID || next.Type != "client" || next.Policies[0] != "q" || !next.ExpirationTime.Equal(*made.ExpirationTime) ||
		next.ExpirationTTL != time.Hour || !next.CreateTime.Equal(made.CreateTime) || next.CreateIndex != made.CreateIndex || next.ModifyIndex <= made.ModifyIndex || string(next.Hash) == string(made.Hash) {
		t.Errorf("updated %+v\n of %+v", next, made)
	}
	at := f.now.Add(2 * time.Hour)
	for want, change := range map[string]api.ACLToken{
		"cannot toggle global mode of " + made.AccessorID: {Global: true},
		"cannot update the secret":                        {SecretID: "x"},
		"cannot update expiration TTL":                    {ExpirationTTL: time.Minute},
		"cannot update expiration time":                   {ExpirationTime: &at},
	} {
		change.AccessorID, change.Policies = made.AccessorID, []string{"p"}
		_, err := f.put(&change)
		refused(t, err, fault.Invalid, "token 0 invalid: "+list(want))
	}
	_, err := f.put(&api.ACLToken{AccessorID: "none", Type: "management"})
	refused(t, err, fault.NotFound, "ACL token not found")
	// The token is deleted while an update is under way.
	_, err = f.Raft.Propose(t.Context(), &acl.UpsertToken{Token: &api.ACLToken{AccessorID: "none", SecretID: "s"}})
	refused(t, err, fault.NotFound, "ACL token not found")
}

// A client token is created with an accessor and a secret that are given, so that it can be moved between clusters.
func TestTokenIsUploaded(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.policy("p")
	const accessor, secret = "b306571d-a3fa-42d2-ac5b-bbe49d8c3c7f", "c28ba0f6-ab8d-4e4d-b9f0-7f9f5d1c2e3a"
	in := api.ACLToken{AccessorID: accessor, SecretID: secret, Type: "client", Policies: []string{"p"}}
	for want, change := range map[string]func(*api.ACLToken){
		"cannot upload management tokens": func(t *api.ACLToken) { t.Type, t.Policies = "management", nil },
		"the accessor is no UUID":         func(t *api.ACLToken) { t.AccessorID = "x" },
		"the secret is no UUID":           func(t *api.ACLToken) { t.SecretID = "{" + secret + "}" },
	} {
		bad := in
		change(&bad)
		if _, err := f.put(&bad); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	made := f.token(&in)
	if made.AccessorID != accessor || made.SecretID != secret || made.CreateTime.IsZero() || len(made.Hash) == 0 {
		t.Errorf("uploaded %+v", made)
	}
	other := in
	other.AccessorID = "a306571d-a3fa-42d2-ac5b-bbe49d8c3c7f"
	_, err := f.put(&other)
	refused(t, err, fault.Invalid, "the secret is that of another token")
}

func TestListsHaveNoSecrets(t *testing.T) {
	t.Parallel()
	f := open(t)
	made := f.token(&api.ACLToken{Type: "management"})
	f.token(&api.ACLToken{Type: "management", Global: true})
	all, err := f.Tokens(t.Context(), &api.ACLTokenListRequest{})
	if err != nil || len(all.Tokens) != 2 || all.Tokens[0].SecretID != "" || all.Tokens[1].SecretID != "" {
		t.Errorf("listed %+v %v", all, err)
	}
	global, err := f.Tokens(t.Context(), &api.ACLTokenListRequest{GlobalOnly: true})
	if err != nil || len(global.Tokens) != 1 || !global.Tokens[0].Global {
		t.Errorf("global %+v %v", global, err)
	}
	_, err = f.Tokens(t.Context(), &api.ACLTokenListRequest{QueryOptions: api.QueryOptions{Filter: `SecretID == "` + made.SecretID + `"`}})
	if !errors.Is(err, fault.Invalid) {
		t.Errorf("a filter reads secrets: %v", err)
	}
}

// Roles are shown by their present names; policies and roles that were deleted permit nothing.
func TestRolesOfTokensAreResolved(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.policy("p")
	kept := f.role(&api.ACLRole{Name: "kept", Policies: []*api.ACLRolePolicyLink{{Name: "p"}, {Name: "p"}}})
	dropped := f.role(&api.ACLRole{Name: "dropped", Policies: []*api.ACLRolePolicyLink{{Name: "p"}}})
	if len(kept.Policies) != 1 {
		t.Errorf("role %+v", kept)
	}
	made := f.token(&api.ACLToken{Type: "client", Roles: []*api.ACLTokenRoleLink{{Name: "kept"}, {ID: dropped.ID}, {ID: kept.ID}}})
	if len(made.Roles) != 2 || made.Roles[0].ID != kept.ID || made.Roles[1].Name != "dropped" {
		t.Errorf("token %+v", made)
	}
	renamed := *kept
	renamed.Name = "renamed"
	f.role(&renamed)
	if _, err := f.DeleteRole(t.Context(), &api.NameWriteRequest{Name: dropped.ID}); err != nil {
		t.Fatal(err)
	}
	got, err := f.Token(t.Context(), &api.ACLTokenRequest{AccessorID: made.AccessorID})
	if err != nil || len(got.Token.Roles) != 1 || got.Token.Roles[0].Name != "renamed" {
		t.Errorf("token %+v %v", got, err)
	}
	_, err = f.DeleteRole(t.Context(), &api.NameWriteRequest{Name: dropped.ID})
	refused(t, err, fault.NotFound, "ACL role not found")
}

func TestRolesAndPoliciesAreChecked(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.policy("p")
	links := []*api.ACLRolePolicyLink{{Name: "p"}}
	f.role(&api.ACLRole{Name: "taken", Policies: links})
	upsert := func(r *api.ACLRole) error {
		_, err := f.UpsertRole(t.Context(), &api.ACLRoleUpsertRequest{Role: r})
		return err
	}
	refused(t, upsert(&api.ACLRole{Name: "a b", Policies: links}), fault.Invalid, "role 0 invalid: "+list(`invalid name "a b": use 1 to 128 letters, digits and dashes`))
	refused(t, upsert(&api.ACLRole{Name: "r"}), fault.Invalid, "role 0 invalid: "+list("at least one policy should be specified"))
	refused(t, upsert(&api.ACLRole{Name: "r", Policies: []*api.ACLRolePolicyLink{{Name: "q"}}}), fault.Invalid, "role 0 invalid: "+list("cannot find policy q"))
	refused(t, upsert(&api.ACLRole{Name: "taken", Policies: links}), fault.Invalid, "role with name taken already exists")
	refused(t, upsert(&api.ACLRole{ID: "none", Name: "r", Policies: links}), fault.NotFound, "ACL role not found")

	for want, p := range map[string]*api.ACLPolicy{
		list("description longer than 256"):                      {Name: "p", Description: strings.Repeat("d", 257)},
		list("a policy of a task needs the group of the task"):   {Name: "p", JobACL: &api.JobACL{Namespace: "default", JobID: "j", Task: "t"}},
		list("a policy of a group or a task needs the job"):      {Name: "p", JobACL: &api.JobACL{Namespace: "default", Group: "g"}},
		list("a policy of a job needs the namespace of the job"): {Name: "p", JobACL: &api.JobACL{JobID: "j"}},
	} {
		p.Rules = `node { policy = "read" }`
		_, err := f.UpsertPolicies(t.Context(), &api.ACLPolicyUpsertRequest{Policies: []*api.ACLPolicy{p}})
		refused(t, err, fault.Invalid, "policy 0 invalid: "+want)
	}
	_, err := f.UpsertPolicies(t.Context(), &api.ACLPolicyUpsertRequest{Policies: []*api.ACLPolicy{{Name: "p", Rules: "namespace {{"}}})
	if !errors.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), "policy 0 invalid: 1 error occurred:\n\t* failed to parse rules: ") {
		t.Error(err)
	}
}

// Callers without a management token see their own token, policies and roles; others are refused alike, whether they exist
// or not.
func TestCallersSeeTheirOwn(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.policy("direct", "ofrole", "foreign")
	mine := f.role(&api.ACLRole{Name: "mine", Policies: []*api.ACLRolePolicyLink{{Name: "ofrole"}}})
	foreign := f.role(&api.ACLRole{Name: "foreign", Policies: []*api.ACLRolePolicyLink{{Name: "foreign"}}})
	other := f.token(&api.ACLToken{Type: "management"})
	caller := f.token(&api.ACLToken{Type: "client", Policies: []string{"direct"}, Roles: []*api.ACLTokenRoleLink{{Name: "mine"}}})

	ctx := f.as(caller)
	policies, err := f.Policies(ctx, &api.QueryOptions{})
	if err != nil || len(policies.Policies) != 2 || policies.Policies[0].Name != "direct" || policies.Policies[1].Name != "ofrole" {
		t.Errorf("policies %+v %v", policies, err)
	}
	roles, err := f.Roles(ctx, &api.QueryOptions{})
	if err != nil || len(roles.Roles) != 1 || roles.Roles[0].ID != mine.ID {
		t.Errorf("roles %+v %v", roles, err)
	}
	self, err := f.WhoAmI(ctx, &api.QueryOptions{})
	if err != nil || self.Token.SecretID != caller.SecretID {
		t.Errorf("self %+v %v", self, err)
	}
	if got, err := f.Role(ctx, &api.ACLRoleRequest{Name: "mine"}); err != nil || got.Role == nil {
		t.Errorf("own role: %+v %v", got, err)
	}
	for _, ask := range []func() error{
		func() error {
			_, err := f.Token(ctx, &api.ACLTokenRequest{AccessorID: other.AccessorID})
			return err
		},
		func() error { _, err := f.Token(ctx, &api.ACLTokenRequest{AccessorID: "none"}); return err },
		func() error { _, err := f.Policy(ctx, &api.NameRequest{Name: "foreign"}); return err },
		func() error { _, err := f.Policy(ctx, &api.NameRequest{Name: "none"}); return err },
		func() error { _, err := f.Role(ctx, &api.ACLRoleRequest{ID: foreign.ID}); return err },
		func() error { _, err := f.Role(ctx, &api.ACLRoleRequest{Name: "none"}); return err },
	} {
		refused(t, ask(), fault.Denied, "Permission denied")
	}
	missing, err := f.Policy(t.Context(), &api.NameRequest{Name: "none"})
	if err != nil || missing.Policy != nil || missing.Index != f.State.Read().TableIndex(state.TableACLPolicies) {
		t.Errorf("missing policy %+v %v", missing, err)
	}
}

func TestOneTimeTokensWorkOnceAndForTenMinutes(t *testing.T) {
	t.Parallel()
	f := open(t)
	caller := f.token(&api.ACLToken{Type: "management"})
	ctx := f.as(caller)
	once := func() string {
		out, err := f.OneTimeToken(ctx, &api.OneTimeTokenRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return out.OneTimeToken.OneTimeSecretID
	}
	exchange := func(secret string) (*api.ACLTokenWriteResponse, error) {
		return f.Exchange(t.Context(), &api.OneTimeTokenExchangeRequest{OneTimeSecretID: secret})
	}
	secret := once()
	got, err := exchange(secret)
	if err != nil || got.Token.SecretID != caller.SecretID {
		t.Fatalf("exchanged %+v %v", got, err)
	}
	_, err = exchange(secret)
	refused(t, err, fault.Denied, "Permission denied")

	late := once()
	f.now = f.now.Add(10 * time.Minute)
	_, err = exchange(late)
	refused(t, err, fault.Denied, "Permission denied")
	if err := f.Collect(t.Context()); err != nil || f.State.Read().OneTimeToken(late) != nil {
		t.Errorf("not collected: %v", err)
	}
	orphan := once()
	if _, err := f.DeleteTokens(t.Context(), &api.ACLTokenDeleteRequest{AccessorIDs: []string{caller.AccessorID}}); err != nil {
		t.Fatal(err)
	}
	_, err = exchange(orphan)
	refused(t, err, fault.Denied, "Permission denied")
	_, err = f.OneTimeToken(ctx, &api.OneTimeTokenRequest{})
	refused(t, err, fault.Denied, "Permission denied")
}

func TestExpiredTokensAreDeletedAfterAnHour(t *testing.T) {
	t.Parallel()
	f := open(t)
	short := f.token(&api.ACLToken{Type: "management", ExpirationTTL: time.Minute})
	long := f.token(&api.ACLToken{Type: "management", ExpirationTTL: 2 * time.Hour})
	forever := f.token(&api.ACLToken{Type: "management"})
	check := func(want ...*api.ACLToken) {
		t.Helper()
		if err := f.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		n := 0
		for range f.State.Read().ACLTokens() {
			n++
		}
		for _, w := range want {
			if f.State.Read().ACLToken(w.AccessorID) == nil {
				t.Errorf("%+v is missing", w)
			}
		}
		if n != len(want) {
			t.Errorf("%d tokens, want %d", n, len(want))
		}
	}
	f.now = f.now.Add(time.Hour)
	check(short, long, forever)
	f.now = f.now.Add(time.Minute)
	check(long, forever)
	f.now = f.now.Add(365 * 24 * time.Hour)
	check(forever)
}

func TestNothingIsServedWithoutAccessControl(t *testing.T) {
	t.Parallel()
	s := acl.New(acl.Config{State: state.New(), Secrets: secretstest.NewBox()})
	for _, h := range s.Handlers() {
		_, err := h.Serve(t.Context(), h.New())
		refused(t, err, fault.Invalid, "ACL support disabled")
	}
}
