package rpc

import (
	"testing"

	"github.com/open-nomad/open-nomad/api/wire"
)

func TestOnlyServersAreAmongServers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		role  wire.Role
		scope wire.Scope
		want  bool
	}{
		{wire.RoleServer, wire.Local, true},
		{wire.RoleServer, wire.OnNode, true},
		{wire.RoleClient, wire.Local, false},
		{wire.RoleClient, wire.OnNode, false},
		{wire.RoleCLI, wire.Local, false},
		{wire.Unproven, wire.Local, true},
		{wire.Unproven, wire.Leader, false},
		{wire.Unproven, wire.OnNode, false},
	} {
		if got := amongServers(c.role, c.scope); got != c.want {
			t.Errorf("role %q, scope %d: %v, want %v", c.role, c.scope, got, c.want)
		}
	}
}
