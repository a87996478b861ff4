package rpc

import (
	"testing"

	"github.com/open-nomad/open-nomad/api/wire"
)

func TestOnlyServersAreAmongServers(t *testing.T) {
	t.Parallel()
	s := New(Config{Address: "10.0.0.1:1", Servers: func(string) []string { return []string{"10.0.0.1:1", "10.0.0.2:1", "[fd00::2]:1"} }})
	for _, c := range []struct {
		role  wire.Role
		scope wire.Scope
		want  bool
		from  string
	}{
		{wire.RoleServer, wire.Local, true, "10.0.0.9:5"},
		{wire.RoleServer, wire.OnNode, true, "10.0.0.9:5"},
		{wire.RoleClient, wire.Local, false, "10.0.0.9:5"},
		{wire.RoleClient, wire.OnNode, false, "10.0.0.9:5"},
		{wire.RoleCLI, wire.Local, false, "10.0.0.9:5"},
		{wire.Unproven, wire.Local, true, "10.0.0.9:5"},
		{wire.Unproven, wire.Leader, false, "10.0.0.9:5"},
		{wire.Unproven, wire.OnNode, false, "10.0.0.2:5"},
		{wire.Unproven, wire.Leader, true, "10.0.0.2:5"},
		{wire.Unproven, wire.Leader, true, "[fd00::2]:5"},
		{wire.Unproven, wire.Leader, false, "10.0.0.1:5"},
		{wire.RoleClient, wire.Leader, false, "10.0.0.2:5"},
	} {
		if got := s.amongServers(wire.Peer{Address: c.from, Role: c.role}, c.scope); got != c.want {
			t.Errorf("role %q, scope %d: %v, want %v", c.role, c.scope, got, c.want)
		}
	}
}
