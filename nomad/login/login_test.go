package login_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/login"
	"github.com/open-nomad/open-nomad/nomad/login/provider"
	"github.com/open-nomad/open-nomad/nomad/login/providertest"
	"github.com/open-nomad/open-nomad/nomad/secrets/secretstest"
	"github.com/open-nomad/open-nomad/nomad/state"
)

const redirect = "http://localhost:4649/oidc/callback"

type fixture struct {
	*login.Service
	t     *testing.T
	state *state.Store
	idp   *providertest.Provider
	log   *strings.Builder
}

// open makes a service and a provider. The policies dev and ops and the role team exist.
func open(t *testing.T) fixture {
	t.Helper()
	s, log := state.New(), &strings.Builder{}
	p := providertest.New()
	t.Cleanup(p.Close)
	f := fixture{login.New(login.Config{
		Secrets: secretstest.NewBox(),
		Log:     hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: log}), State: s, Raft: fsm.NewLocal(s, fsm.NewRegistry(login.Commands)), Providers: provider.New(nil), Enabled: true,
	}), t, s, p, log}
	f.given(func(tx *state.Txn) {
		tx.PutACLPolicy(&api.ACLPolicy{Name: "dev"})
		tx.PutACLPolicy(&api.ACLPolicy{Name: "ops"})
		tx.PutACLRole(&api.ACLRole{ID: "r1", Name: "team"})
	})
	return f
}

func (f fixture) given(put func(tx *state.Txn)) {
	tx := f.state.Write(f.state.Read().Index()+1, f.state.Read().Now())
	put(tx)
	tx.Commit()
}

// jwt is an auth method with the keys of the provider.
func (f fixture) jwt(name string) *api.ACLAuthMethod {
	return &api.ACLAuthMethod{
		Name: name, Type: api.AuthMethodJWT, TokenLocality: api.TokenLocalityLocal, MaxTokenTTL: time.Hour,
		Config: &api.ACLAuthMethodConfig{
			JWKSURL: f.idp.URL + "/keys", JWKSCACert: f.idp.CA(), BoundAudiences: []string{"nomad"}, BoundIssuer: []string{f.idp.URL},
			ClaimMappings: map[string]string{"sub": "user"}, ListClaimMappings: map[string]string{"groups": "groups"},
		},
	}
}

func (f fixture) oidc(name string) *api.ACLAuthMethod {
	m := f.jwt(name)
	m.Type, m.TokenLocality = api.AuthMethodOIDC, api.TokenLocalityGlobal
	m.Config.JWKSURL, m.Config.JWKSCACert, m.Config.BoundAudiences = "", "", nil
	m.Config.OIDCDiscoveryURL, m.Config.DiscoveryCaPem = f.idp.URL, []string{f.idp.CA()}
	m.Config.OIDCClientID, m.Config.OIDCClientSecret, m.Config.OIDCEnablePKCE = providertest.ClientID, providertest.ClientSecret, true
	m.Config.AllowedRedirectURIs = []string{redirect}
	return m
}

func (f fixture) upsert(m *api.ACLAuthMethod) error {
	_, err := f.UpsertMethod(f.t.Context(), &api.ACLAuthMethodUpsertRequest{Method: m})
	return err
}

// method stores an auth method.
func (f fixture) method(m *api.ACLAuthMethod) {
	f.t.Helper()
	if err := f.upsert(m); err != nil {
		f.t.Fatal(err)
	}
}

func (f fixture) bind(method, selector, kind, name string) {
	f.t.Helper()
	if _, err := f.UpsertRule(f.t.Context(), &api.ACLBindingRuleUpsertRequest{Rule: &api.ACLBindingRule{AuthMethod: method, Selector: selector, BindType: kind, BindName: name}}); err != nil {
		f.t.Fatal(err)
	}
}

func (f fixture) login(method, token string) (*api.ACLToken, error) {
	out, err := f.Login(f.t.Context(), &api.ACLLoginRequest{AuthMethodName: method, LoginToken: token})
	if err != nil {
		return nil, err
	}
	return out.Token, nil
}

func refused(t *testing.T, err error, class fault.Class, words ...string) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("got %v, want %v", err, class)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q lacks %q", err, w)
		}
	}
}

func TestLoginsGetWhatTheRulesBind(t *testing.T) {
	t.Parallel()
	f := open(t)
	m := f.jwt("m")
	m.TokenNameFormat = "${auth_method_name}-${value.user}"
	f.method(m)
	_, err := f.login("m", f.idp.Token(f.idp.Claims(nil)))
	refused(t, err, fault.Denied, "no role or policy bindings matched")
	f.bind("m", `"dev" in list.groups`, "policy", "dev")
	f.bind("m", `"boss" in list.groups`, "management", "")
	f.bind("m", "", "policy", "${value.user}")
	f.bind("m", `value.user == "ann"`, "role", "team")
	token, err := f.login("m", f.idp.Token(f.idp.Claims(nil)))
	if err != nil {
		t.Fatal(err)
	}
	stored := f.state.Read().ACLToken(token.AccessorID)
	if d := cmp.Diff(stored, token, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(api.ACLToken{}, "SecretID", "SecretHash")); d != "" {
		t.Errorf("the state has another token: %s", d)
	}
	if stored.SecretID == token.SecretID || token.SecretHash != "" {
		t.Error("the state has the secret in clear")
	}
	if d := cmp.Diff(&api.ACLToken{
		Name: "m-ann", Type: "client", Policies: []string{"dev"}, Roles: []*api.ACLTokenRoleLink{{ID: "r1", Name: "team"}}, ExpirationTTL: time.Hour,
	}, token, cmpopts.IgnoreFields(api.ACLToken{}, "AccessorID", "SecretID", "Hash", "CreateTime", "ExpirationTime", "CreateIndex", "ModifyIndex")); d != "" {
		t.Error(d)
	}
	if got := token.ExpirationTime.Sub(token.CreateTime); got != time.Hour {
		t.Errorf("the token lives %s", got)
	}
	if by := f.state.Read().ACLTokenBySecret(token.SecretID); by == nil || by.AccessorID != token.AccessorID {
		t.Errorf("the secret finds %v", by)
	}
	boss, err := f.login("m", f.idp.Token(f.idp.Claims(map[string]any{"sub": "eve\n\x1b[2J", "groups": "boss"})))
	if err != nil || boss.Type != "management" || len(boss.Policies)+len(boss.Roles) > 0 || boss.Name != "m-eve[2J" {
		t.Errorf("a management login: %+v, %v", boss, err)
	}
	for _, secret := range []string{token.SecretID, boss.SecretID} {
		if strings.Contains(f.log.String(), secret) {
			t.Error("the log has the secret of a token")
		}
	}
}

func TestLoginsOfAnotherKindAreRefused(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.method(f.jwt("jwt"))
	f.method(f.oidc("oidc"))
	f.bind("jwt", "", "policy", "dev")
	token := f.idp.Token(f.idp.Claims(nil))
	_, err := f.login("", token)
	refused(t, err, fault.Invalid, "missing auth method name")
	_, err = f.login("jwt", "")
	refused(t, err, fault.Invalid, "missing login token")
	_, err = f.login("none", token)
	refused(t, err, fault.Invalid, `"none" not found`)
	_, err = f.login("oidc", token)
	refused(t, err, fault.Invalid, "type OIDC")
	_, err = f.login("jwt", "bad")
	refused(t, err, fault.Unauthenticated,
		"unable to validate provided token: unable to verify signature of JWT token: error verifying token signature: go-jose/go-jose: compact JWS format must have three parts")
	_, err = f.login("jwt", f.idp.Token(f.idp.Claims(map[string]any{"exp": 1})))
	refused(t, err, fault.Unauthenticated, "expired")
	if n := len(slices.Collect(f.state.Read().ACLTokens())); n > 0 {
		t.Errorf("%d tokens after failed logins", n)
	}
	f.idp.Misbehave(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	other := f.jwt("down")
	other.Config.JWKSURL += "?other"
	f.method(other)
	_, err = f.login("down", token)
	refused(t, err, fault.Unavailable, "status 502")
}

// racing changes an auth method while a login is under way.
type racing struct {
	fsm.Proposer
	before func()
}

func (r racing) Propose(ctx context.Context, c fsm.Command) (fsm.Result, error) {
	if _, ok := c.(*login.Issue); ok {
		r.before()
	}
	return r.Proposer.Propose(ctx, c)
}

func TestALoginFailsWhenItsMethodChanges(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.method(f.jwt("m"))
	f.bind("m", "", "policy", "dev")
	local := f.Config.Raft
	for name, change := range map[string]func(){
		"updated": func() { f.given(func(tx *state.Txn) { m := *tx.ACLAuthMethod("m"); tx.PutACLAuthMethod(&m) }) },
		"deleted": func() { f.given(func(tx *state.Txn) { tx.DeleteACLAuthMethod("m") }) },
	} {
		f.method(f.jwt("m"))
		f.Config.Raft = racing{local, change}
		f.Service.Config.Raft = f.Config.Raft
		_, err := f.login("m", f.idp.Token(f.idp.Claims(nil)))
		f.Service.Config.Raft = local
		if !errors.Is(err, fault.Conflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMethodsAreCheckedWhenTheyAreCreated(t *testing.T) {
	t.Parallel()
	f := open(t)
	first := f.jwt("first")
	first.Default = true
	f.method(first)
	change := func(change func(*api.ACLAuthMethod)) *api.ACLAuthMethod { m := f.jwt("m"); change(m); return m }
	for want, m := range map[string]*api.ACLAuthMethod{
		"missing auth method":             nil,
		"invalid name":                    change(func(m *api.ACLAuthMethod) { m.Name = "a b" }),
		"invalid type":                    change(func(m *api.ACLAuthMethod) { m.Type = "LDAP" }),
		"invalid token locality":          change(func(m *api.ACLAuthMethod) { m.TokenLocality = "" }),
		"should be between 1m0s and 24h":  change(func(m *api.ACLAuthMethod) { m.MaxTokenTTL = 0 }),
		"invalid MaxTokenTTL":             change(func(m *api.ACLAuthMethod) { m.MaxTokenTTL = 25 * time.Hour }),
		"missing auth method config":      change(func(m *api.ACLAuthMethod) { m.Config = nil }),
		"is unknown in":                   change(func(m *api.ACLAuthMethod) { m.TokenNameFormat = "${user}" }),
		"exactly one of":                  change(func(m *api.ACLAuthMethod) { m.Config.JWKSURL = "" }),
		"ClaimMappings maps":              change(func(m *api.ACLAuthMethod) { m.Config.ClaimMappings = map[string]string{"a": "x y"} }),
		"ListClaimMappings maps":          change(func(m *api.ACLAuthMethod) { m.Config.ListClaimMappings = map[string]string{"a": "x y"} }),
		"default method for type JWT alr": change(func(m *api.ACLAuthMethod) { m.Default = true }),
	} {
		refused(t, f.upsert(m), fault.Invalid, want)
	}
	other := f.oidc("other")
	other.Default = true
	f.method(other)
	first.MaxTokenTTL = 2 * time.Hour
	f.method(first) // stays the default
	got, err := f.Method(t.Context(), &api.NameRequest{Name: "first"})
	if err != nil || got.Method.TokenNameFormat != api.DefaultTokenNameFormat || got.Method.MaxTokenTTL != 2*time.Hour ||
		!got.Method.ModifyTime.After(got.Method.CreateTime) || len(got.Method.Hash) != 32 {
		t.Errorf("%+v, %v", got.Method, err)
	}
}

func TestListsShowNoConfiguration(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.method(f.oidc("m"))
	list, err := f.Methods(t.Context(), &api.QueryOptions{})
	if err != nil || len(list.Methods) != 1 || list.Methods[0].Config != nil || list.Methods[0].Name != "m" || list.Index == 0 {
		t.Errorf("%+v, %v", list, err)
	}
	got, err := f.Method(t.Context(), &api.NameRequest{Name: "m"})
	if err != nil || got.Method.Config.OIDCClientSecret != providertest.ClientSecret {
		t.Errorf("%+v, %v", got, err)
	}
	again := f.oidc("m")
	again.Config.OIDCClientSecret = "another"
	f.method(again)
	if changed, _ := f.Method(t.Context(), &api.NameRequest{Name: "m"}); slices.Equal(changed.Method.Hash, got.Method.Hash) {
		t.Error("a new secret leaves the hash as it was")
	}
}

func TestRulesAreChecked(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.method(f.jwt("m"))
	for want, r := range map[string]*api.ACLBindingRule{
		"missing binding rule":   nil,
		"auth method is missing": {BindType: "policy", BindName: "x"},
		"doesn't exist":          {AuthMethod: "none", BindType: "policy", BindName: "x"},
		"unsupported bind type":  {AuthMethod: "m", BindType: "user", BindName: "x"},
		"bind name has 0":        {AuthMethod: "m", BindType: "role"},
		"should be empty":        {AuthMethod: "m", BindType: "management", BindName: "x"},
		"selector is invalid":    {AuthMethod: "m", BindType: "policy", BindName: "x", Selector: "value."},
		"is unknown in":          {AuthMethod: "m", BindType: "policy", BindName: "${list.x}"},
		"description longer":     {AuthMethod: "m", BindType: "policy", BindName: "x", Description: strings.Repeat("d", 257)},
	} {
		_, err := f.UpsertRule(t.Context(), &api.ACLBindingRuleUpsertRequest{Rule: r})
		refused(t, err, fault.Invalid, want)
	}
	_, err := f.UpsertRule(t.Context(), &api.ACLBindingRuleUpsertRequest{Rule: &api.ACLBindingRule{ID: "none", AuthMethod: "m", BindType: "management"}})
	refused(t, err, fault.NotFound, "cannot find binding rule")
	f.bind("m", "", "policy", "dev")
	list, err := f.Rules(t.Context(), &api.QueryOptions{})
	if err != nil || len(list.Rules) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	id := list.Rules[0].ID
	out, err := f.UpsertRule(t.Context(), &api.ACLBindingRuleUpsertRequest{Rule: &api.ACLBindingRule{ID: id, BindType: "role", BindName: "team"}})
	if err != nil || out.Rule.AuthMethod != "m" || !out.Rule.CreateTime.Equal(list.Rules[0].CreateTime) || out.Rule.CreateIndex != list.Rules[0].CreateIndex {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err := f.DeleteRule(t.Context(), &api.NameWriteRequest{Name: id}); err != nil {
		t.Error(err)
	}
	_, err = f.DeleteRule(t.Context(), &api.NameWriteRequest{Name: id})
	refused(t, err, fault.NotFound, "binding rule not found")
}

func TestRulesDoNotOutliveTheirMethod(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.method(f.jwt("m"))
	f.bind("m", "", "management", "")
	if _, err := f.DeleteMethod(t.Context(), &api.NameWriteRequest{Name: "m"}); err != nil {
		t.Fatal(err)
	}
	_, err := f.DeleteMethod(t.Context(), &api.NameWriteRequest{Name: "m"})
	refused(t, err, fault.NotFound)
	f.method(f.jwt("m"))
	_, err = f.login("m", f.idp.Token(f.idp.Claims(nil)))
	refused(t, err, fault.Denied)
}

// begin begins a login and visits the provider. The request completes it.
func (f fixture) begin(method string) *api.ACLOIDCCompleteAuthRequest {
	f.t.Helper()
	out, err := f.AuthURL(f.t.Context(), &api.ACLOIDCAuthURLRequest{AuthMethodName: method, RedirectURI: redirect, ClientNonce: "client"})
	if err != nil {
		f.t.Fatal(err)
	}
	back, err := f.idp.Visit(out.AuthURL)
	if err != nil {
		f.t.Fatal(err)
	}
	return &api.ACLOIDCCompleteAuthRequest{
		AuthMethodName: method, ClientNonce: "client", State: back.Get("state"), Code: back.Get("code"), Iss: back.Get("iss"), RedirectURI: redirect,
	}
}

func TestUsersLogInAtTheProviderOnce(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.method(f.oidc("m"))
	f.bind("m", `value.user == "ann"`, "policy", "dev")
	r := f.begin("m")
	out, err := f.CompleteAuth(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if !out.Token.Global || out.Token.Name != "OIDC-m" || !slices.Equal(out.Token.Policies, []string{"dev"}) {
		t.Errorf("%+v", out.Token)
	}
	_, err = f.CompleteAuth(t.Context(), r)
	refused(t, err, fault.Unauthenticated, "begin again")
	for _, secret := range []string{providertest.ClientSecret, out.Token.SecretID, r.Code, r.State} {
		if strings.Contains(f.log.String(), secret) {
			t.Errorf("the log has a secret")
		}
	}
}

func TestLoginsOfOthersCannotBeCompleted(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.method(f.oidc("m"))
	f.method(f.oidc("other"))
	f.bind("m", "", "policy", "dev")
	f.bind("other", "", "policy", "ops")
	changes := map[string]func(*api.ACLOIDCCompleteAuthRequest){
		"nonce":    func(r *api.ACLOIDCCompleteAuthRequest) { r.ClientNonce = "another" },
		"state":    func(r *api.ACLOIDCCompleteAuthRequest) { r.State = "guessed" },
		"redirect": func(r *api.ACLOIDCCompleteAuthRequest) { r.RedirectURI = "http://localhost:1/oidc/callback" },
		"method":   func(r *api.ACLOIDCCompleteAuthRequest) { r.AuthMethodName = "other" },
		"issuer":   func(r *api.ACLOIDCCompleteAuthRequest) { r.Iss = "https://evil" },
		"code":     func(r *api.ACLOIDCCompleteAuthRequest) { r.Code = f.begin("m").Code },
		"altered":  func(r *api.ACLOIDCCompleteAuthRequest) { r.State = r.State[:20] + "AA" + r.State[22:] },
		"cut":      func(r *api.ACLOIDCCompleteAuthRequest) { r.State = r.State[:60] },
		"changed":  func(*api.ACLOIDCCompleteAuthRequest) { f.method(f.oidc("m")) },
	}
	for what, change := range changes {
		good := f.begin("m")
		bad := *good
		change(&bad)
		if _, err := f.CompleteAuth(t.Context(), &bad); !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("%s: %v", what, err)
		}
		// What the provider was asked about cannot be asked again. Others cannot end the login of the user.
		spent := what == "issuer" || what == "code" || what == "changed"
		if _, err := f.CompleteAuth(t.Context(), good); errors.Is(err, fault.Unauthenticated) != spent {
			t.Errorf("%s: the user's own attempt: %v", what, err)
		}
	}
	for want, r := range map[string]*api.ACLOIDCAuthURLRequest{
		"redirect_uri":         {AuthMethodName: "m", ClientNonce: "n", RedirectURI: "https://evil/oidc/callback"},
		"missing client nonce": {AuthMethodName: "m", RedirectURI: redirect},
		"missing redirect":     {AuthMethodName: "m", ClientNonce: "n"},
		"more than 4096":       {AuthMethodName: "m", ClientNonce: strings.Repeat("n", 5000), RedirectURI: redirect},
	} {
		_, err := f.AuthURL(t.Context(), r)
		refused(t, err, fault.Invalid, want)
	}
}

func TestAFloodOfLoginsDisplacesNoOther(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.method(f.oidc("m"))
	f.bind("m", "", "policy", "dev")
	oldest := f.begin("m")
	for range 5000 {
		if _, err := f.AuthURL(t.Context(), &api.ACLOIDCAuthURLRequest{AuthMethodName: "m", RedirectURI: redirect, ClientNonce: "flood"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.CompleteAuth(t.Context(), oldest); err != nil {
		t.Errorf("the oldest one: %v", err)
	}
}

func TestAHangingProviderDelaysItsOwnUsersOnly(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.Providers.Timeout = 3 * time.Second
	other := providertest.New()
	t.Cleanup(other.Close)
	other.Misbehave(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	hung := f.jwt("hung")
	hung.Config.JWKSURL, hung.Config.JWKSCACert = other.URL+"/keys", other.CA()
	f.method(hung)
	f.method(f.jwt("m"))
	f.bind("m", "", "policy", "dev")
	var waiting sync.WaitGroup
	results := make(chan error, 200)
	for range cap(results) {
		waiting.Go(func() {
			_, err := f.login("hung", other.Token(other.Claims(nil)))
			results <- err
		})
	}
	if err := <-results; !errors.Is(err, fault.Exhausted) { // the slots of that method are taken
		t.Errorf("the first one to return: %v", err)
	}
	began := time.Now()
	if _, err := f.login("m", f.idp.Token(f.idp.Claims(nil))); err != nil || time.Since(began) > 2*time.Second {
		t.Errorf("another method: %v after %s", err, time.Since(began))
	}
	waiting.Wait()
	close(results)
	for err := range results {
		if !errors.Is(err, fault.Exhausted) && !errors.Is(err, fault.Unavailable) {
			t.Errorf("%v", err)
		}
	}
}

func TestFailedLoginsWriteNothing(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.method(f.jwt("m"))
	before := f.state.Read().Index()
	for i := range 100 {
		if _, err := f.login("m", f.idp.Token(f.idp.Claims(map[string]any{"aud": fmt.Sprint(i)}))); !errors.Is(err, fault.Unauthenticated) {
			t.Fatal(err)
		}
	}
	if after := f.state.Read().Index(); after != before {
		t.Errorf("the index is %d, it was %d", after, before)
	}
}

func TestNothingIsServedWithoutAccessControl(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.Enabled = false
	for _, h := range f.Handlers() {
		_, err := h.Serve(t.Context(), h.New())
		refused(t, err, fault.Invalid, "ACL support disabled")
	}
}
