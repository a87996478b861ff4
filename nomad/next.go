//go:build nextversion

package nomad

import (
	"context"

	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// next is a command that only programs of the next version know. Its effect, a node pool, shows that it was
// applied.
type next struct{}

func (*next) Kind() fsm.Kind { return fsm.KindNext }

func (*next) Apply(tx *state.Txn) (any, error) {
	tx.PutNodePool(&api.NodePool{Name: "next", Description: "made by a command of the next version"})
	return nil, nil
}

func (*next) MarshalMsg(b []byte) ([]byte, error)   { return msgp.AppendMapHeader(b, 0), nil }
func (*next) UnmarshalMsg(b []byte) ([]byte, error) { return msgp.Skip(b) }

func nextCommands(r *fsm.Registry) { r.Register(func() fsm.Command { return &next{} }) }

// nextLoops has the leader use the command as soon as all servers understand it.
func (s *Server) nextLoops() []leaderLoop {
	return []leaderLoop{{"next", func(ctx context.Context) error {
		err := state.Until(ctx, s.state, []state.Key{state.TableKey(state.TableCluster)}, func(tx *state.Txn) bool {
			return tx.AgreedVersion() >= fsm.Since(fsm.KindNext)
		})
		if err == nil {
			_, err = s.raft.Propose(ctx, &next{})
		}
		if err == nil {
			<-ctx.Done()
		}
		return err
	}}}
}
