package nomad_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad"
)

// guarded starts a server with access control and returns the secret of its first management token.
func guarded(t *testing.T) (s *nomad.Server, management string) {
	t.Helper()
	s, err := nomad.New(nomad.Config{
		Name: "s1", Region: "global", Datacenter: "dc1", Bind: "127.0.0.1:0", Log: hclog.NewNullLogger(), AccessControl: true, Workers: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	until(t, "a token is made", func() bool {
		out, err := wire.ACLBootstrap.Call(t.Context(), s.Caller(), &api.ACLBootstrapRequest{})
		if err == nil {
			management = out.Token.SecretID
		}
		return err == nil
	})
	return s, management
}

// policyFor returns rules that permit what a method needs and nothing else, and rules that permit everything else. A right
// is on the default namespace or on the pool of that name.
func policyFor(needs wire.Needs) (exactly, others string) {
	var one strings.Builder
	for _, n := range needs.All {
		switch {
		case n.In == wire.Filtered:
		case n.On == api.OnNamespace:
			fmt.Fprintf(&one, "namespace \"default\" { capabilities = [%q] }\n", n.Any[0])
		case n.On == api.OnNodePool:
			fmt.Fprintf(&one, "node_pool \"default\" { capabilities = [%q] }\n", n.Any[0])
		case n.On == api.OnOperator:
			fmt.Fprintf(&one, "operator { capabilities = [%q] }\n", n.Any[0])
			if n.Any[0] == "read" || n.Any[0] == "write" {
				one.Reset()
				fmt.Fprintf(&one, "operator { policy = %q }\n", n.Any[0])
			}
		default:
			fmt.Fprintf(&one, "%s { policy = %q }\n", n.On, n.Any[0])
		}
	}
	if len(needs.All) == 0 {
		return "", ""
	}
	rest := []string{
		"namespace \"default\" { policy = \"write\" }", "namespace \"other\" { policy = \"write\" }", "node { policy = \"write\" }", "agent { policy = \"write\" }",
		"operator { policy = \"write\" }", "quota { policy = \"write\" }", "plugin { policy = \"read\" }", "node_pool \"default\" { policy = \"write\" }",
	}
	needed := needs.All[0].On
	for i, r := range rest {
		if strings.HasPrefix(r, string(needed)+" ") {
			rest[i] = ""
		}
	}
	return one.String(), strings.Join(rest, "\n")
}

// TestEveryMethodWithEveryToken calls each method of the table without a token, with an unknown one, with one that permits
// everything else, with one that permits just what the method needs, and with a management token.
func TestEveryMethodWithEveryToken(t *testing.T) {
	t.Parallel()
	s, management := guarded(t)
	token := func(name, rules string) string {
		if _, err := wire.ACLPolicyUpsert.Call(t.Context(), s.Caller(), &api.ACLPolicyUpsertRequest{
			Policies: []*api.ACLPolicy{{Name: name, Rules: rules}}, WriteRequest: api.WriteRequest{SecretID: management},
		}); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, rules)
		}
		out, err := wire.ACLTokenUpsert.Call(t.Context(), s.Caller(), &api.ACLTokenUpsertRequest{
			Token: &api.ACLToken{Name: name, Type: api.ACLClientToken, Policies: []string{name}}, WriteRequest: api.WriteRequest{SecretID: management},
		})
		if err != nil {
			t.Fatal(err)
		}
		return out.Token.SecretID
	}
	call := func(h wire.Handler, secret string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		req := h.New()
		if r, ok := req.(api.Authenticated); ok {
			*r.Secret() = secret
		}
		named(req)
		_, err := h.Serve(ctx, req)
		return err
	}
	denied := func(err error) bool { return errors.Is(err, fault.Denied) }
	checked := 0
	for _, h := range s.Methods() {
		if h.Needs.Who == wire.Internal {
			if h.Auth == wire.ByUser || h.Auth == wire.ByOperator {
				t.Errorf("%s is called by users and has no rule", h.Name)
			}
			continue
		}
		if h.Auth != wire.ByUser && h.Auth != wire.ByOperator {
			t.Errorf("%s is not called by users and has a rule for them", h.Name)
		}
		if h.Needs.Who == 0 {
			t.Errorf("%s has no rule", h.Name)
		}
		if _, ok := h.New().(api.Authenticated); !ok && h.Needs.Who != wire.Open {
			t.Errorf("%s needs a token, and its request carries none", h.Name)
		}
		if h.Name == wire.OperatorSnapshotRestore.Name || h.Name == wire.OperatorTransferLeadership.Name {
			if !denied(call(h, "")) || !denied(call(h, "unknown")) {
				t.Errorf("%s is open", h.Name)
			}
			continue // they change the server
		}
		checked++
		switch h.Needs.Who {
		case wire.Open:
			if err := call(h, "unknown"); denied(err) && h.Name != wire.ACLOneTimeExchange.Name {
				t.Errorf("%s is open and refuses: %v", h.Name, err)
			}
		case wire.Judged:
			if err := call(h, "unknown"); !denied(err) && h.Name != wire.NodeCall.Name {
				t.Errorf("%s with an unknown token: %v", h.Name, err)
			}
		case wire.AnyToken, wire.Management:
			if err := call(h, ""); !denied(err) {
				t.Errorf("%s without a token: %v", h.Name, err)
			}
			if err := call(h, "unknown"); !denied(err) {
				t.Errorf("%s with an unknown token: %v", h.Name, err)
			}
			if err := call(h, management); denied(err) {
				t.Errorf("%s with a management token: %v", h.Name, err)
			}
			if h.Needs.Who == wire.Management {
				if err := call(h, token("everything", everything)); !denied(err) {
					t.Errorf("%s with a client token: %v", h.Name, err)
				}
			}
		case wire.Holder:
			exactly, others := policyFor(h.Needs)
			name := strings.ReplaceAll(h.Name, ".", "-")
			for what, secret := range map[string]string{"no token": "", "an unknown token": "unknown", "all other rights": token(name+"-others", others)} {
				if err := call(h, secret); !denied(err) {
					t.Errorf("%s with %s: %v", h.Name, what, err)
				}
			}
			if err := call(h, token(name+"-exactly", exactly)); denied(err) {
				t.Errorf("%s with just what it needs: %v\n%s", h.Name, err, exactly)
			}
			if err := call(h, management); denied(err) {
				t.Errorf("%s with a management token: %v", h.Name, err)
			}
		}
	}
	if checked < 80 {
		t.Errorf("only %d methods were checked", checked)
	}
}

// everything are all rights that a policy can give.
const everything = `
namespace "*" { policy = "write" }
node_pool "*" { policy = "write" }
node { policy = "write" }
agent { policy = "write" }
operator { policy = "write" }
quota { policy = "write" }
plugin { policy = "read" }
`

// named fills in what methods on pools and namespaces compare.
func named(req any) {
	switch r := req.(type) {
	case *api.NodePoolUpsertRequest:
		r.Spec = &api.NodePool{Name: "default"}
	case *api.NameWriteRequest:
		r.Name = "default"
	case *api.NameRequest:
		r.Name = "default"
	case *api.VolumeDetachRequest:
		r.VolumeID = "v"
	case *api.VolumeRegisterRequest:
		r.Volumes = []*api.VolumeSpec{{ID: "v"}}
	}
}
