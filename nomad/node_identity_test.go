package nomad_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/api/wire/transport"
)

// TestStolenSecretIsRefusedOnceTheIdentityIsBound calls every method of nodes over TCP with the secret of a node that has
// used its identity, and with the identity, also after a rotation of the root key.
func TestStolenSecretIsRefusedOnceTheIdentityIsBound(t *testing.T) {
	t.Parallel()
	s, management := guarded(t)
	self, err := certs.SelfMade()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := transport.Connect(s.Address(), transport.Dialer{TLS: self.Client})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	n := &api.Node{ID: "n1", SecretID: "stolen", Name: "n1", Datacenter: "dc1"}
	token := ""
	until(t, "an identity is signed", func() bool {
		out, err := wire.NodeRegister.Call(t.Context(), conn, &api.NodeRegisterRequest{Node: n})
		if err != nil {
			t.Fatal(err)
		}
		token = out.Identity
		return token != ""
	})
	beat := func(credential string) (*api.NodeUpdateResponse, error) {
		return wire.NodeHeartbeat.Call(t.Context(), conn, &api.NodeHeartbeatRequest{NodeID: "n1", NodeSecret: credential})
	}
	if _, err := beat(token); err != nil {
		t.Fatal(err)
	}
	all := func(credential string, refused bool) {
		t.Helper()
		methods := 0
		for _, h := range s.Methods() {
			if h.Auth != wire.ByNode || h.Name == wire.NodeRegister.Name {
				continue
			}
			methods++
			req := h.New()
			v := reflect.ValueOf(req).Elem()
			v.FieldByName("NodeID").SetString("n1")
			v.FieldByName("NodeSecret").SetString(credential)
			ctx, cancel := context.WithCancel(t.Context())
			_, err := h.Serve(ctx, req)
			cancel()
			if errors.Is(err, fault.Denied) != refused {
				t.Errorf("%s: %v", h.Name, err)
			}
		}
		if methods < 6 {
			t.Errorf("only %d methods", methods)
		}
		_, err := wire.NodeGet.Call(t.Context(), conn, &api.NodeRequest{NodeID: "n1", QueryOptions: api.QueryOptions{AuthToken: credential}})
		if errors.Is(err, fault.Denied) != refused || !refused && err != nil {
			t.Errorf("the node reads itself: %v", err)
		}
	}
	all("stolen", true)
	all(token, false)
	if _, err := wire.NodeRegister.Call(t.Context(), conn, &api.NodeRegisterRequest{Node: n}); !errors.Is(err, fault.Denied) {
		t.Errorf("registration with the secret alone: %v", err)
	}
	hello := transport.Hello{NodeID: "n1", Secret: "stolen"}
	if err := transport.ServeReverse(t.Context(), s.Address(), transport.Dialer{TLS: self.Client}, hello, nil, hclog.NewNullLogger(), nil); !errors.Is(err, fault.Denied) {
		t.Errorf("connection with the secret alone: %v", err)
	}
	if _, err := wire.KeyringRotate.Call(t.Context(), s.Caller(), &api.RootKeyRotateRequest{WriteRequest: api.WriteRequest{SecretID: management}}); err != nil {
		t.Fatal(err)
	}
	out, err := beat(token)
	if err != nil || out.Identity == "" {
		t.Fatalf("after the rotation: %v", err)
	}
	all(out.Identity, false)
	all(token, false) // the reply may have been lost
	all("stolen", true)
}
