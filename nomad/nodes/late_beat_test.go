package nodes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// slowLoss holds up what marks a node as lost.
type slowLoss struct {
	fsm.Leader
	began, goOn chan struct{}
}

func (p *slowLoss) Propose(ctx context.Context, c fsm.Command) (fsm.Result, error) {
	if s, is := c.(*nodes.SetStatus); is && s.Missed {
		p.began <- struct{}{}
		<-p.goOn
	}
	return p.Leader.Propose(ctx, c)
}

// The leases of a node that is found lost end a term after it was last heard. So what it sends while the servers write
// that it is lost, or before, and which is answered later, must not renew them.
func TestNodeThatIsBeingLostIsNotAnswered(t *testing.T) {
	t.Parallel()
	beat := &api.NodeHeartbeatRequest{NodeID: "n1", Status: api.NodeStatusReady}
	for name, answer := range map[string]func(*fixture) error{
		"heartbeat": func(r *fixture) error { _, err := r.Heartbeat(t.Context(), beat); return err },
		"heartbeat with events": func(r *fixture) error {
			told := *beat
			told.Events = []*api.NodeEvent{{Message: "told"}}
			_, err := r.Heartbeat(t.Context(), &told)
			return err
		},
		"registration": func(r *fixture) error {
			_, err := r.Register(t.Context(), &api.NodeRegisterRequest{Node: node("n1")})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, slow := openSlow(t, func(context.Context) error { return nil })
				r.register(node("n1"))
				r.beat("n1", api.NodeStatusReady)
				<-slow.began
				if err := answer(r); err == nil {
					t.Error("it is answered while it is being lost")
				}
				close(slow.goOn)
				r.await("lost node", "n1", func(n *api.Node) bool { return n.Status == api.NodeStatusDown })
				if err := answer(r); err != nil || r.state.Read().Node("n1").Status == api.NodeStatusDown {
					t.Errorf("it does not come back: %v", err)
				}
			})
		})
	}
}

func TestHeartbeatThatIsAnsweredAfterTheLossOfItsNodeIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, verified := make(chan struct{}), make(chan struct{})
		r, slow := openSlow(t, func(context.Context) error { close(asked); <-verified; return nil })
		close(slow.goOn)
		r.register(node("n1"))
		r.beat("n1", api.NodeStatusReady)
		answered := make(chan error)
		go func() {
			_, err := r.Heartbeat(t.Context(), &api.NodeHeartbeatRequest{NodeID: "n1", Status: api.NodeStatusReady})
			answered <- err
		}()
		<-asked
		<-slow.began
		r.await("lost node", "n1", func(n *api.Node) bool { return n.Status == api.NodeStatusDown })
		close(verified)
		if err := <-answered; err == nil {
			t.Error("a heartbeat of before the loss is answered after it")
		}
	})
}

// openSlow leads with a log that is slow to note that nodes are lost.
func openSlow(t *testing.T, verify func(context.Context) error) (*fixture, *slowLoss) {
	t.Helper()
	s := state.New()
	slow := &slowLoss{fsm.NewLocal(s, registry()), make(chan struct{}, 1), make(chan struct{})}
	r := &fixture{state: s, t: t, Service: nodes.New(nodes.Config{
		Log: hclog.NewNullLogger(), State: s, Raft: verified{slow, verify},
		Heartbeat: nodes.Heartbeat{MinTTL: time.Second, Grace: time.Second, FailoverTTL: time.Minute},
	})}
	r.lead()
	synctest.Wait()
	return r, slow
}
