package rpc

import (
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/api/wire/transport"
)

func TestARoleAndItsRegionDecideWhatMayBeCalled(t *testing.T) {
	t.Parallel()
	s := New(Config{Region: "global"})
	const user, node, server, operator = wire.ByUser, wire.ByNode, wire.ByServer, wire.ByOperator
	for _, c := range []struct {
		role   certs.Role
		region string
		may    []wire.Auth
	}{
		{certs.RoleServer, "global", []wire.Auth{user, node, server, operator}},
		{certs.RoleServer, "GLOBAL", []wire.Auth{user, node, server, operator}},
		{certs.RoleServer, "eu", []wire.Auth{user, operator}},
		{certs.RoleClient, "global", []wire.Auth{user, node}},
		{certs.RoleClient, "eu", nil},
		{certs.RoleCLI, "global", []wire.Auth{user}},
		{certs.Unproven, "", []wire.Auth{user, node, server, operator}},
	} {
		may := map[wire.Auth]bool{}
		for _, auth := range c.may {
			may[auth] = true
		}
		for _, auth := range []wire.Auth{user, node, server, operator} {
			err := s.may(transport.Peer{Address: "10.0.0.9:5", Role: c.role, Region: c.region}, wire.Handler{Name: "M", Auth: auth, Scope: wire.Local})
			if may[auth] != (err == nil) || err != nil && !errors.Is(err, fault.Denied) {
				t.Errorf("%s of region %q on a method of callers %d: %v", c.role, c.region, auth, err)
			}
		}
	}
}

func TestOnlyServersAreAmongServers(t *testing.T) {
	t.Parallel()
	s := New(Config{Address: "10.0.0.1:1", Servers: func(string) []string { return []string{"10.0.0.1:1", "10.0.0.2:1", "[fd00::2]:1"} }})
	for _, c := range []struct {
		role  certs.Role
		scope wire.Scope
		want  bool
		from  string
	}{
		{certs.RoleServer, wire.Local, true, "10.0.0.9:5"},
		{certs.RoleServer, wire.OnNode, true, "10.0.0.9:5"},
		{certs.RoleClient, wire.Local, false, "10.0.0.9:5"},
		{certs.RoleClient, wire.OnNode, false, "10.0.0.9:5"},
		{certs.RoleCLI, wire.Local, false, "10.0.0.9:5"},
		{certs.Unproven, wire.Local, true, "10.0.0.9:5"},
		{certs.Unproven, wire.Leader, false, "10.0.0.9:5"},
		{certs.Unproven, wire.OnNode, false, "10.0.0.2:5"},
		{certs.Unproven, wire.Leader, true, "10.0.0.2:5"},
		{certs.Unproven, wire.Leader, true, "[fd00::2]:5"},
		{certs.Unproven, wire.Leader, false, "10.0.0.1:5"},
		{certs.RoleClient, wire.Leader, false, "10.0.0.2:5"},
	} {
		if got := s.amongServers(transport.Peer{Address: c.from, Role: c.role}, wire.Handler{Scope: c.scope, Auth: wire.ByServer}); got != c.want {
			t.Errorf("role %q, scope %d: %v, want %v", c.role, c.scope, got, c.want)
		}
	}
}

func TestSecretsGoFromServerToServer(t *testing.T) {
	t.Parallel()
	s := New(Config{Region: "global", Address: "10.0.0.1:1", Servers: func(string) []string { return []string{"10.0.0.1:1", "10.0.0.2:1"} }})
	for _, c := range []struct {
		role         certs.Role
		region, from string
		want         bool
	}{
		{certs.RoleServer, "global", "10.0.0.9:5", true},
		{certs.RoleServer, "eu", "10.0.0.2:5", false},
		{certs.RoleClient, "global", "10.0.0.2:5", false},
		{certs.RoleCLI, "global", "10.0.0.2:5", false},
		{certs.Unproven, "", "10.0.0.2:5", true},
		{certs.Unproven, "", "10.0.0.9:5", false},
	} {
		h := wire.Handler{Name: "M", Auth: wire.ByPeer, Scope: wire.Local}
		if err := s.may(transport.Peer{Address: c.from, Role: c.role, Region: c.region}, h); (err == nil) != c.want {
			t.Errorf("role %q of region %q at %s: %v", c.role, c.region, c.from, err)
		}
	}
}
