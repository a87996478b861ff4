package nodes_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// issuer is a service that issues identities, on a clock that tests set.
type issuer struct {
	*fixture
	now    time.Time
	active *identity.Key
}

func openIssuer(t *testing.T, conf nodes.Introduction) *issuer {
	t.Helper()
	s := state.New()
	r := &issuer{now: time.Unix(1_800_000_000, 0)}
	ids := identity.New(identity.Config{
		State: s, Region: "global", Now: func() time.Time { return r.now },
		Active: func() (*identity.Key, error) { return r.active, nil },
	})
	r.fixture = &fixture{state: s, t: t, Service: nodes.New(nodes.Config{
		Log: hclog.NewNullLogger(), State: s, Raft: fsm.NewLocal(s, registry()), Identities: ids, Introduction: conf,
	})}
	r.rotate()
	return r
}

func (r *issuer) write(do func(*state.Txn)) {
	w := r.state.Write(r.state.Read().Index()+1, r.now)
	do(w)
	w.Commit()
}

// rotate makes a new active key; the others stay in the state.
func (r *issuer) rotate() {
	r.t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		r.t.Fatal(err)
	}
	r.active = &identity.Key{ID: uuid.NewString(), Ed25519: private}
	r.write(func(tx *state.Txn) {
		if old := tx.ActiveRootKey(); old != nil {
			retired := *old
			retired.State = api.RootKeyInactive
			tx.PutRootKey(&retired)
		}
		tx.PutRootKey(&api.RootKey{RootKeyMeta: api.RootKeyMeta{KeyID: r.active.ID, State: api.RootKeyActive}, PublicEd25519: public})
	})
}

// send is a heartbeat with a credential, as the RPC server passes it on.
func (r *issuer) send(id, credential string, renew bool) (*api.NodeUpdateResponse, error) {
	if err := r.Verify(r.t.Context(), id, credential); err != nil {
		return nil, err
	}
	return r.Heartbeat(r.t.Context(), &api.NodeHeartbeatRequest{NodeID: id, NodeSecret: credential, RenewIdentity: renew})
}

// binds registers a node that uses the identity that it gets.
func (r *issuer) binds(id string) (identity string) {
	r.t.Helper()
	identity = r.register(node(id)).Identity
	if _, err := r.send(id, identity, false); err != nil || identity == "" {
		r.t.Fatalf("heartbeat with the identity %q: %v", identity, err)
	}
	return identity
}

func (r *issuer) again(id, identity, introduction string) (*api.NodeUpdateResponse, error) {
	return r.Register(r.t.Context(), &api.NodeRegisterRequest{Node: node(id), Identity: identity, Introduction: introduction})
}

func (r *issuer) introduce(name, pool string, ttl time.Duration) string {
	r.t.Helper()
	out, err := r.Introduce(r.t.Context(), &api.NodeIntroductionRequest{NodeName: name, NodePool: pool, TTL: ttl})
	if err != nil {
		r.t.Fatal(err)
	}
	return out.JWT
}

func refused(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if !errors.Is(err, fault.Denied) {
		t.Errorf("%s: %v", what, err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %v does not contain %q", what, err, w)
		}
	}
}

func TestSecretAloneIsRefusedOnceTheIdentityIsUsed(t *testing.T) {
	t.Parallel()
	r := openIssuer(t, nodes.Introduction{})
	lost := r.register(node("n1")).Identity // the node never got it
	got, err := r.send("n1", "secret of n1", false)
	if err != nil || got.Identity == "" || got.Identity == lost {
		t.Fatalf("the secret of a node whose identity was lost: %+v %v", got, err)
	}
	if _, err := r.send("n1", got.Identity, false); err != nil {
		t.Fatal(err)
	}
	refused(t, "the secret", r.Verify(t.Context(), "n1", "secret of n1"), "the secret alone is not accepted")
	if _, err := r.send("n1", lost, false); err != nil {
		t.Errorf("the other identity: %v", err)
	}
	_, err = r.again("n1", "", "")
	refused(t, "registration with the secret", err, "signed identity", "nomad node intro create -node-name n1", "intro_token.jwt")
	if out, err := r.again("n1", got.Identity, ""); err != nil || out.Identity != "" {
		t.Errorf("registration with the identity: %+v %v", out, err)
	}
	thief := node("n1")
	thief.SecretID = "guess"
	_, err = r.Register(t.Context(), &api.NodeRegisterRequest{Node: thief, Identity: got.Identity})
	refused(t, "the identity without the secret", err, "another secret")
	r.binds("n2")
	refused(t, "the identity of another node", r.Verify(t.Context(), "n2", got.Identity), `that of node "n1"`)
	refused(t, "an introduction", r.Verify(t.Context(), "n2", r.introduce("", "", 0)), "audience")
}

func TestIdentityIsRenewedInTime(t *testing.T) {
	t.Parallel()
	r := openIssuer(t, nodes.Introduction{})
	r.write(func(tx *state.Txn) { tx.PutNodePool(&api.NodePool{Name: "default", NodeIdentityTTL: 3 * time.Hour}) })
	first, index := r.binds("n1"), r.state.Read().Index()
	renewed := func(what string, renew bool) string {
		t.Helper()
		got, err := r.send("n1", first, renew)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return got.Identity
	}
	r.now = r.now.Add(2*time.Hour - time.Second)
	if renewed("early", false) != "" || r.state.Read().Index() != index {
		t.Error("an ordinary heartbeat issues an identity or writes to the log")
	}
	if renewed("requested", true) == "" {
		t.Error("no identity when the node requests one")
	}
	r.now = r.now.Add(time.Second)
	next := renewed("in the last third", false)
	if next == "" || r.state.Read().Index() != index {
		t.Error("no identity in the last third, or the renewal writes to the log")
	}
	r.rotate()
	index = r.state.Read().Index()
	old := r.state.Read().Node("n1").IdentitySigningKeyID
	first = next
	rotated := renewed("after a rotation", false)
	if rotated == "" || r.state.Read().Node("n1").IdentitySigningKeyID != old {
		t.Error("the rotation renews no identity, or counts before the node uses it")
	}
	first = rotated
	if renewed("with the new key", false) != "" || r.state.Read().Index() != index+1 || r.state.Read().Node("n1").IdentitySigningKeyID != r.active.ID {
		t.Error("the key of the node is not recorded once")
	}
	changed := node("n1")
	changed.NodeClass = "gpu"
	if out, err := r.Register(t.Context(), &api.NodeRegisterRequest{Node: changed, Identity: rotated}); err != nil || out.Identity == "" {
		t.Errorf("no identity with the new class: %v", err)
	}
}

func TestExpiredIdentityRegistersOnly(t *testing.T) {
	t.Parallel()
	r := openIssuer(t, nodes.Introduction{})
	old := r.binds("n1")
	r.now = r.now.Add(30 * 24 * time.Hour)
	_, err := r.send("n1", old, false)
	refused(t, "heartbeat", err, "expired")
	out, err := r.again("n1", old, "")
	if err != nil || out.Identity == "" {
		t.Fatalf("registration: %+v %v", out, err)
	}
	if _, err := r.send("n1", out.Identity, false); err != nil {
		t.Error(err)
	}
	_, err = r.send("n1", old, false) // once more, from the memory of the server
	refused(t, "heartbeat with the old identity", err, "expired")
}

func TestNodeWithoutItsIdentityIsIntroducedAgain(t *testing.T) {
	t.Parallel()
	r := openIssuer(t, nodes.Introduction{})
	r.binds("n1")
	for what, token := range map[string]string{
		"none": "", "for another name": r.introduce("n2", "", 0), "for another pool": r.introduce("n1", "gpu", 0), "no token": "eyJ.e.y",
	} {
		_, err := r.again("n1", "", token)
		refused(t, what, err, "intro create")
	}
	good := r.introduce("n1", "default", time.Minute)
	for range 2 { // the reply of the first registration may be lost
		out, err := r.again("n1", "", good)
		if err != nil || out.Identity == "" {
			t.Fatalf("%+v %v", out, err)
		}
	}
	r.now = r.now.Add(time.Hour)
	_, err := r.again("n1", "", good)
	refused(t, "an expired introduction", err)
}

// TestLostKeyLocksOutNoNode removes the key that signed an identity.
func TestLostKeyLocksOutNoNode(t *testing.T) {
	t.Parallel()
	r := openIssuer(t, nodes.Introduction{})
	old, key := r.binds("n1"), r.active.ID
	r.rotate()
	r.write(func(tx *state.Txn) { tx.DeleteRootKey(key) })
	_, err := r.send("n1", old, false)
	refused(t, "the identity of the lost key", err, "a key that this cluster does not have")
	out, err := r.again("n1", old, "")
	if err != nil || out.Identity == "" {
		t.Fatalf("registration: %v", err)
	}
	if _, err := r.send("n1", out.Identity, false); err != nil {
		t.Error(err)
	}
}

// TestIdentityOfAKeyThatARestoreForgot uses an identity whose key the restored state does not have.
func TestIdentityOfAKeyThatARestoreForgot(t *testing.T) {
	t.Parallel()
	r := openIssuer(t, nodes.Introduction{})
	first, before := r.binds("n1"), r.active.ID
	r.rotate()
	got, err := r.send("n1", first, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.send("n1", got.Identity, false); err != nil {
		t.Fatal(err)
	}
	r.write(func(tx *state.Txn) {
		tx.DeleteRootKey(r.active.ID)
		n := *tx.Node("n1")
		n.IdentitySigningKeyID = before
		tx.PutNode(&n)
	})
	_, err = r.again("n1", got.Identity, "")
	refused(t, "the newer identity", err, "a key that this cluster does not have", "nomad node intro create")
	if _, err := r.again("n1", first, ""); err != nil {
		t.Errorf("the older identity: %v", err)
	}
}

func TestEnforcementOfIntroductions(t *testing.T) {
	t.Parallel()
	for level, c := range map[nodes.Enforcement]struct {
		accepted bool
		counted  uint64
	}{nodes.EnforceNone: {true, 0}, nodes.EnforceWarn: {true, 4}, "": {true, 4}, nodes.EnforceStrict: {false, 4}} {
		r := openIssuer(t, nodes.Introduction{Enforcement: level})
		for id, token := range map[string]string{
			"a": "", "b": r.introduce("other", "", 0), "c": r.introduce("", "gpu", 0), "d": "eyJ.no.token",
		} {
			_, err := r.again(id, "", token)
			if (err == nil) != c.accepted || err != nil && !errors.Is(err, fault.Denied) {
				t.Errorf("%q, node %s: %v", level, id, err)
			}
		}
		if got := r.Violations(); got != c.counted {
			t.Errorf("%q counts %d", level, got)
		}
		for id, token := range map[string]string{"e": r.introduce("", "", 0), "f": r.introduce("f", "default", 0)} {
			if _, err := r.again(id, "", token); err != nil {
				t.Errorf("%q, node %s with an introduction: %v", level, id, err)
			}
		}
	}
}

func TestIntroductionTokens(t *testing.T) {
	t.Parallel()
	r := openIssuer(t, nodes.Introduction{Enforcement: nodes.EnforceStrict, DefaultTTL: time.Minute, MaxTTL: time.Hour})
	for _, bad := range []api.NodeIntroductionRequest{
		{TTL: time.Hour + 1}, {TTL: -1}, {TTL: time.Millisecond}, {NodePool: "all"}, {NodePool: "a b"}, {NodeName: "a\nb"}, {NodeName: strings.Repeat("n", 300)},
	} {
		if _, err := r.Introduce(t.Context(), &bad); !errors.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	short, long := r.introduce("", "", 0), r.introduce("", "", time.Hour)
	r.now = r.now.Add(time.Minute)
	_, err := r.again("n1", "", short)
	refused(t, "after the default TTL", err, "expired", "intro create")
	if _, err := r.again("n1", "", long); err != nil {
		t.Error(err)
	}
	none := open(t, nodes.Heartbeat{})
	if _, err := none.Introduce(context.Background(), &api.NodeIntroductionRequest{}); !errors.Is(err, fault.Unimplemented) {
		t.Errorf("without keys: %v", err)
	}
}
