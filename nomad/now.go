//go:build !nextversion

package nomad

import "github.com/open-nomad/open-nomad/nomad/fsm"

func nextCommands(*fsm.Registry) {}

func (*Server) nextLoops() []leaderLoop { return nil }
