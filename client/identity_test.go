package client_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// issuer are servers that issue identities, and that need an introduction if they are strict.
type issuer struct {
	*servers
	strict bool
	// issue is the identity in the next reply, lost makes the node receive an error instead.
	issue string
	lost  bool
	// registered and beat are the last requests.
	registered api.NodeRegisterRequest
	beat       api.NodeHeartbeatRequest
	// secrets are the credentials of the last call of each method.
	secrets map[string]string
}

func (s *issuer) Invoke(ctx context.Context, method string, req, resp any) error {
	out, answers := resp.(*api.NodeUpdateResponse)
	refused := false
	s.edit(func() {
		if r, ok := req.(api.ByNode); ok {
			_, s.secrets[method] = r.NodeCredentials()
		}
		switch r := req.(type) {
		case *api.NodeRegisterRequest:
			s.registered = *r
			refused = s.strict && r.Introduction != "introduced"
		case *api.NodeHeartbeatRequest:
			s.beat = *r
		}
	})
	if refused {
		return fault.New(fault.Denied, "no introduction")
	}
	if err := s.servers.Invoke(ctx, method, req, resp); err != nil || !answers {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if out.Identity, s.issue = s.issue, ""; out.Identity != "" && s.lost {
		return fault.New(fault.Unavailable, "the reply is lost")
	}
	return nil
}

func withIssuer(t *testing.T) (*bench, *issuer) {
	b := setup(t)
	s := &issuer{servers: b.servers, secrets: map[string]string{}}
	b.conf.Servers = s
	return b, s
}

// jwt is a token with these claims, which no key has signed.
const jwt = "e30.eyJzdWIiOiJub2RlIn0.c2ln"

func TestNodeStoresItsIdentityAndSendsItInPlaceOfTheSecret(t *testing.T) {
	b, s := withIssuer(t)
	s.issue = jwt
	b.start(t)
	b.until(t, "a heartbeat with the identity", func() bool { return s.beat.NodeSecret == jwt })
	if secret := s.registered.Node.SecretID; secret == "" || secret == jwt {
		t.Errorf("registered with the secret %q", secret)
	}
	b.place(alloc("a", job("batch", "mock_driver", map[string]any{"run_for": "1ms"})))
	b.until(t, "calls with the identity", func() bool {
		return s.secrets[wire.NodeUpdateAllocs.Name] == jwt && s.secrets[wire.NodeAssignments.Name] == jwt
	})
	info, err := os.Stat(filepath.Join(b.conf.StateDir, "identity.jwt"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	claims, err := call(t, b.servers, wire.ClientNodeIdentity, &api.NodeRequest{})
	if err != nil || string(claims.Claims) != `{"sub":"node"}` {
		t.Errorf("claims: %+v %v", claims, err)
	}
	b.stop()
	b.edit(func() { s.registered, s.beat = api.NodeRegisterRequest{}, api.NodeHeartbeatRequest{} })
	b.start(t)
	b.until(t, "the restarted agent uses its identity", func() bool { return s.registered.Identity == jwt && s.beat.NodeSecret == jwt })
}

func TestNodeKeepsItsIdentityWhenAReplyIsLost(t *testing.T) {
	b, s := withIssuer(t)
	s.issue = jwt
	b.start(t)
	b.until(t, "a heartbeat with the identity", func() bool { return s.beat.NodeSecret == jwt })
	b.edit(func() { s.issue, s.lost, s.beat = "lost", true, api.NodeHeartbeatRequest{} })
	b.until(t, "the lost reply", func() bool { return s.issue == "" })
	b.edit(func() { s.lost, s.beat = false, api.NodeHeartbeatRequest{} })
	b.until(t, "a heartbeat with the old identity", func() bool { return s.beat.NodeSecret == jwt })
}

func TestNodeRequestsANewIdentity(t *testing.T) {
	b, s := withIssuer(t)
	b.start(t)
	b.until(t, "registered", func() bool { return s.registers > 0 })
	if _, err := call(t, b.servers, wire.ClientNodeIdentity, &api.NodeRequest{}); fault.Of(err) != fault.NotFound {
		t.Errorf("without an identity: %v", err)
	}
	if _, err := call(t, b.servers, wire.ClientNodeIdentityRenew, &api.NodeRequest{}); err != nil {
		t.Fatal(err)
	}
	b.until(t, "a heartbeat that requests an identity", func() bool { return s.beat.RenewIdentity })
	b.edit(func() { s.issue = jwt })
	b.until(t, "a heartbeat with it", func() bool { return s.beat.NodeSecret == jwt && !s.beat.RenewIdentity })
}

func TestRefusedNodeFindsTheTokenOfAnOperator(t *testing.T) {
	b, s := withIssuer(t)
	s.strict = true
	b.start(t)
	b.until(t, "refused", func() bool { return s.registered.Node != nil })
	if err := os.WriteFile(filepath.Join(b.conf.StateDir, "intro_token.jwt"), []byte("introduced\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.until(t, "registered with the token", func() bool { return s.registers > 0 })
}

func TestNodeWhoseDiskFailsDoesNotUseItsFirstIdentity(t *testing.T) {
	b, s := withIssuer(t)
	if err := os.MkdirAll(filepath.Join(b.conf.StateDir, "identity.jwt", "not-a-file"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.issue = jwt
	b.start(t)
	b.until(t, "the identity is issued", func() bool { return s.issue == "" && s.registers > 0 })
	var first uint64
	b.until(t, "a heartbeat", func() bool { first = s.beat.Number; return first > 0 })
	b.until(t, "two more heartbeats", func() bool { return s.beat.Number >= first+2 })
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.beat.NodeSecret == jwt {
		t.Error("the identity is used, and would be lost with the process")
	}
}
