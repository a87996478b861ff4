package nomad_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/transport"
)

// impostor is a request in the name of a node with a secret that is not its own, and an answer that is not read.
type impostor struct{ nothing }

func (impostor) MarshalMsg(b []byte) ([]byte, error) {
	b = msgp.AppendMapHeader(b, 3)
	b = msgp.AppendString(msgp.AppendString(b, "NodeID"), poisonedNode)
	b = msgp.AppendString(msgp.AppendString(b, "NodeSecret"), "0f")
	b = msgp.AppendString(b, "Node")
	b = msgp.AppendMapHeader(b, 4)
	b = msgp.AppendString(msgp.AppendString(b, "Datacenter"), "dc1")
	b = msgp.AppendString(msgp.AppendString(b, "ID"), poisonedNode)
	b = msgp.AppendString(msgp.AppendString(b, "Name"), "evil")
	return msgp.AppendString(msgp.AppendString(b, "SecretID"), "0f"), nil
}

// TestNoMethodIsOpenedByAChangeOfTheLeader has the holder of a client's certificate call every method that is not for
// users, in the name of another node, at all servers while the leadership moves: a server that wins while it holds a call
// serves none of them.
func TestNoMethodIsOpenedByAChangeOfTheLeader(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	id := a.identity("server.global.nomad")
	var all []*host
	for _, name := range []string{"a", "b", "c"} {
		h := newHost(t, name, "global", 3, all...)
		h.conf.TLS = id
		all = append(all, h.start())
	}
	all[0].write("first")
	until(t, "the node is registered", func() bool {
		_, err := wire.NodeRegister.Call(t.Context(), all[0].server.Caller(), &api.NodeRegisterRequest{Node: aNode(poisonedNode)})
		return err == nil
	})
	for _, h := range all {
		until(t, h.conf.Name+" knows the node", func() bool {
			got, err := wire.NodeGet.Call(t.Context(), h.server.Caller(), &api.NodeRequest{NodeID: poisonedNode, QueryOptions: api.QueryOptions{Stale: true}})
			return err == nil && got.Node != nil
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	client := transport.Dialer{TLS: a.identity("client.global.nomad").TLS().Client}
	var wg sync.WaitGroup
	calls := make([]int, len(all)*len(methods(t)))
	for i, h := range all {
		conn, err := transport.Connect(h.server.Address(), client)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for k, m := range methods(t) {
			if m.auth == "ByUser" || m.scope == "OnNode" {
				continue
			}
			n := &calls[i*len(methods(t))+k]
			wg.Go(func() {
				for ; ctx.Err() == nil; *n++ {
					err := conn.Invoke(ctx, m.name, impostor{}, nothing{})
					known := errors.Is(err, fault.Denied) || errors.Is(err, fault.Conflict) // refused for who calls
					away := errors.Is(err, fault.NotLeader) || errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Timeout)
					if ctx.Err() == nil && !known && !away {
						t.Errorf("%s at %s: %v", m.name, h.conf.Name, err)
						return
					}
				}
			})
		}
	}
	for range 4 {
		var leader *host
		var followers []*host
		until(t, "a leader and two followers", func() bool { leader, followers = split(all); return leader != nil && len(followers) == 2 })
		until(t, "the leadership has moved", func() bool {
			_, _ = wire.OperatorTransferLeadership.Call(t.Context(), leader.server.Caller(), &api.RaftPeerRequest{Address: followers[0].server.Address()})
			return !leader.server.Leads() && followers[0].server.Leads()
		})
	}
	cancel()
	wg.Wait()
	total := 0
	for _, n := range calls {
		total += n
	}
	t.Logf("%d calls", total)
	got, err := wire.NodeGet.Call(t.Context(), all[0].server.Caller(), &api.NodeRequest{NodeID: poisonedNode})
	if err != nil || got.Node.Name != "n" {
		t.Errorf("the node is %+v, %v", got.Node, err)
	}
}
