package attacks

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"

	ours "github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// TestAttackersAreRefused tries what the holders of certificates, of the gossip key and of copies can try, and that
// people save and restore through each server.
func TestAttackersAreRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t, kit.ACL)
	b.servers[0].Register(kit.ShellJob("victim", "exec sleep 10000"))
	alloc := b.servers[0].Running("victim", 1)
	node := b.node.NodeID(b.servers[0])
	for _, attack := range []struct {
		name string
		try  func(*testing.T)
	}{
		{"protocols", b.protocols},
		{"methods", func(t *testing.T) { b.methods(t, node) }},
		{"wrong secret while the leadership moves", func(t *testing.T) { b.wrongSecret(t, node, alloc.ID) }},
		{"the gossip key alone", b.gossip},
		{"a copied data directory", b.twin},
		{"snapshots of 50 MB", b.snapshots},
	} {
		t.Run(attack.name, func(t *testing.T) {
			b.t = t
			attack.try(t)
		})
	}
	b.t = t
	if again := b.servers[0].Running("victim", 1); again.ID != alloc.ID {
		t.Errorf("the allocation is %s, and was %s", again.ID, alloc.ID)
	}
	for _, s := range b.servers {
		if l := log(t, s); strings.Contains(l, "removing a server") || strings.Contains(l, "panic") {
			t.Errorf("%s removed a server, or panicked", s.Name)
		}
	}
	b.voters(3)
}

// protocols: which certificate opens which protocol.
func (b *bed) protocols(t *testing.T) {
	for _, c := range []struct{ cert, protocol, refusal string }{
		{"global-client-nomad", wire.ProtocolRaft, "raft is for servers, the certificate is a client's"},
		{"global-cli-nomad", wire.ProtocolRPC, "a cli certificate opens the HTTP API only"},
		{"global-cli-nomad", wire.ProtocolReverse, "a cli certificate opens the HTTP API only"},
		{"eu-server-nomad", wire.ProtocolRaft, "it refuses our certificate"},
		{"eu-client-nomad", wire.ProtocolRPC, "it refuses our certificate"},
		{"eu-client-nomad", wire.ProtocolReverse, "it refuses our certificate"},
		{"other/global-server-nomad", wire.ProtocolRPC, "it refuses our certificate"},
		{"", wire.ProtocolRPC, "it asks for a certificate of its authority"},
	} {
		for _, s := range b.servers {
			conn, err := b.as(c.cert).Dial(t.Context(), s.IP+":4647", c.protocol)
			if err == nil {
				_ = conn.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.refusal) {
				t.Errorf("%q on %s of %s: %v, want %q", c.cert, c.protocol, s.Name, err, c.refusal)
			}
		}
	}
}

// methods: what a node and a server of another region may not call, at leader and followers; forwarded as they may say.
func (b *bed) methods(t *testing.T, node string) {
	type try struct {
		what, refusal string
		call          func(context.Context, wire.Caller) error
	}
	ask := func(what, refusal string, call func(context.Context, wire.Caller) error) try {
		return try{what, refusal, call}
	}
	keys := ask("the gossip keys", "is for operators", func(ctx context.Context, c wire.Caller) error {
		_, err := wire.StatusKeyring.Call(ctx, c, &ours.KeyringRequest{Op: ours.KeyringList})
		return err
	})
	servers := []try{
		ask("work", "is for servers", func(ctx context.Context, c wire.Caller) error {
			_, err := wire.EvalDequeue.Call(ctx, c, &ours.EvalDequeueRequest{Kinds: []string{"service"}})
			return err
		}),
		ask("a plan", "is for servers", func(ctx context.Context, c wire.Caller) error {
			_, err := wire.PlanSubmit.Call(ctx, c, &ours.PlanSubmitRequest{})
			return err
		}),
		ask("a relay", "is for servers", func(ctx context.Context, c wire.Caller) error {
			_, err := wire.NodeRelay.Call(ctx, c, &ours.RelayRequest{NodeID: node, Method: "ClientNode.Stats"})
			return err
		}),
		ask("a server's log", "is for servers", func(ctx context.Context, c wire.Caller) error {
			_, err := wire.StatusPeerInfo.Call(ctx, c, &ours.Empty{})
			return err
		}),
	}
	nodes := []try{
		keys,
		ask("the leadership", "is for operators", func(ctx context.Context, c wire.Caller) error {
			_, err := wire.OperatorTransferLeadership.Call(ctx, c, &ours.RaftPeerRequest{})
			return err
		}),
		ask("a snapshot", "is for operators", func(ctx context.Context, c wire.Caller) error {
			_, err := wire.OperatorSnapshotRead.Call(ctx, c, &ours.SnapshotReadRequest{})
			return err
		}),
		ask("a controller", "is no call of users to nodes", func(ctx context.Context, c wire.Caller) error {
			_, err := wire.NodeCall.Call(ctx, c, &ours.NodeCallRequest{NodeID: node, Method: "Controller.Publish"})
			return err
		}),
		ask("another's heartbeat", "wrong secret", func(ctx context.Context, c wire.Caller) error {
			_, err := wire.NodeHeartbeat.Call(ctx, c, &ours.NodeHeartbeatRequest{NodeID: node, NodeSecret: "0f", Status: "down"})
			return err
		}),
		ask("another's identity", "is registered with another secret", func(ctx context.Context, c wire.Caller) error {
			_, err := wire.NodeRegister.Call(ctx, c, &ours.NodeRegisterRequest{Node: &ours.Node{ID: node, Name: "evil", Datacenter: "dc1", SecretID: "0f"}})
			return err
		}),
		ask("another's volume", "wrong secret", func(ctx context.Context, c wire.Caller) error {
			_, err := wire.VolumeClaim.Call(ctx, c, &ours.VolumeClaimRequest{NodeID: node, NodeSecret: "0f", VolumeID: "v"})
			return err
		}),
	}
	for cert, tries := range map[string][]try{"global-client-nomad": append(nodes, servers...), "eu-server-nomad": servers} {
		for _, s := range b.servers {
			conn := b.connect(cert, s)
			for _, hops := range []int{0, -1 << 40, 1, 2, 3} {
				ctx, cancel := context.WithTimeout(transport.WithHops(t.Context(), hops), 10*time.Second)
				for _, x := range tries {
					err := x.call(ctx, conn)
					refused := errors.Is(err, fault.Denied) || errors.Is(err, fault.Conflict)
					refusal := x.refusal
					if cert == "eu-server-nomad" && refused && strings.Contains(err.Error(), `of region "eu"`) {
						refusal = `of region "eu"`
					}
					forwarded := hops == 3 && errors.Is(err, fault.NotLeader) // as often as any call may be
					if !forwarded && (!refused || !strings.Contains(err.Error(), refusal)) {
						t.Errorf("%s asks %s for %s after %d hops: %v, want %q", cert, s.Name, x.what, hops, err, refusal)
					}
				}
				cancel()
			}
		}
	}
	junk := b.connect("global-client-nomad", b.servers[0])
	for _, method := range []string{"ClientAlloc.Stats", "ClientAlloc.FileRead", "ClientNode.Stats", "ClientAlloc.Nothing"} {
		for _, body := range [][]byte{nil, {0xc0}, {0xdf, 0xff, 0xff, 0xff, 0xff}, bytes.Repeat([]byte{0x91}, 200_000), bytes.Repeat([]byte{0xff}, 900_000)} {
			_, err := wire.NodeCall.Call(t.Context(), junk, &ours.NodeCallRequest{NodeID: node, Method: method, Body: body})
			if err != nil && errors.Is(err, fault.Internal) {
				t.Errorf("%s with %d bytes of junk: %.200v", method, len(body), err)
			}
		}
	}
	got, err := wire.NodeGet.Call(t.Context(), junk, &ours.NodeRequest{NodeID: node, QueryOptions: ours.QueryOptions{AuthToken: kit.Token()}})
	if err != nil || got.Node == nil || got.Node.SecretID != "" {
		t.Errorf("the node is shown as %+v, %v", got, err)
	}
	for _, h := range []transport.Hello{{NodeID: node, Secret: "0f"}, {}} {
		err := transport.ServeReverse(t.Context(), b.servers[0].IP+":4647", b.as("global-client-nomad"), h, nil, hclog.NewNullLogger(), func() { t.Error("a reversed connection was taken") })
		if !errors.Is(err, fault.Denied) && !errors.Is(err, fault.NotFound) {
			t.Errorf("a reversed connection as %+v: %v", h, err)
		}
	}
}

// wrongSecret calls in the name of a node while the leader changes: a server that wins while it holds such a call must
// not serve it.
func (b *bed) wrongSecret(t *testing.T, node, alloc string) {
	ctx, cancel := context.WithCancel(t.Context())
	var calls, taken atomic.Int64
	var wg sync.WaitGroup
	for _, s := range b.servers {
		for i := range 4 {
			conn := b.connect("global-client-nomad", s)
			wg.Go(func() {
				for ctx.Err() == nil {
					var err error
					switch i {
					case 0:
						_, err = wire.NodeAssignments.Call(ctx, conn, &ours.NodeAssignmentsRequest{NodeID: node, NodeSecret: "0f"})
					case 1:
						_, err = wire.NodeUpdateAllocs.Call(ctx, conn, &ours.AllocUpdateRequest{
							NodeID: node, NodeSecret: "0f",
							Allocs: []*ours.Allocation{{ID: alloc, NodeID: node, ClientStatus: "failed", ClientDescription: "forged"}},
						})
					default:
						_, err = wire.NodeHeartbeat.Call(ctx, conn, &ours.NodeHeartbeatRequest{NodeID: node, NodeSecret: "0f", Status: "down"})
					}
					calls.Add(1)
					if err == nil {
						taken.Add(1)
					}
				}
			})
		}
	}
	for range 6 {
		b.transfer()
	}
	cancel()
	wg.Wait()
	if taken.Load() > 0 {
		t.Errorf("%d of %d calls with a wrong secret were taken", taken.Load(), calls.Load())
	}
	t.Logf("%d calls over 6 changes of the leader", calls.Load())
	if s := b.node.NodeStatus(b.servers[0]); s != "ready" {
		t.Errorf("the node is %s", s)
	}
}

// gossip joins with the key and the id of a living server, under another name, and leaves.
func (b *bed) gossip(t *testing.T) {
	all, err := b.peers()
	if err != nil {
		t.Fatal(err)
	}
	leader := b.leader()
	var id, rpc string
	for i, p := range all {
		if !strings.HasPrefix(p.Address, leader.IP+":") {
			id, rpc = i, p.Address
			break
		}
	}
	key, err := base64.StdEncoding.DecodeString(b.key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := member(t, b, "nokey.global", id, rpc, nil); err == nil {
		t.Error("gossip takes a member without the key")
	}
	evil, err := member(t, b, "old.global", id, rpc, key)
	if err != nil {
		t.Fatal(err)
	}
	status := func(want string) {
		t.Helper()
		leader.Until(30*time.Second, "the false member to be "+want, func() error {
			m, err := leader.API.Agent().Members()
			if err != nil {
				return err
			}
			for _, x := range m.Members {
				if x.Name == "old.global" && x.Status == want {
					return nil
				}
			}
			return fmt.Errorf("%d members", len(m.Members))
		})
	}
	status("alive")
	leader.Until(30*time.Second, "the leader to tell", func() error {
		if !strings.Contains(log(t, leader), "several living servers have one id") {
			return errors.New("silence")
		}
		return nil
	})
	if err := evil.Leave(); err != nil {
		t.Error(err)
	}
	_ = evil.Shutdown()
	status("left")
	if err := leader.API.Agent().ForceLeave("old.global"); err != nil {
		t.Error(err)
	}
	now, err := b.peers()
	if err != nil || now[id] == nil || !now[id].Voter {
		t.Errorf("the server is no voter any more: %+v, %v", now[id], err)
	}
}

// member joins gossip from the machine that all hosts reach.
func member(t *testing.T, b *bed, name, id, rpc string, key []byte) (*serf.Serf, error) {
	t.Helper()
	ip := b.servers[0].IP
	own := ip[:strings.LastIndexByte(ip, '.')] + ".1"
	c := serf.DefaultConfig()
	c.Init()
	c.NodeName, c.LogOutput = name, io.Discard
	host, port, _ := strings.Cut(rpc, ":")
	c.Tags = map[string]string{"role": "nomad", "region": "global", "dc": "dc1", "id": id, "build": "0.1.0", "port": port, "rpc_addr": host, "raft_vsn": "3", "vsn": "1", "expect": "3"}
	c.MemberlistConfig = memberlist.DefaultLANConfig()
	c.MemberlistConfig.BindAddr, c.MemberlistConfig.BindPort, c.MemberlistConfig.LogOutput, c.MemberlistConfig.SecretKey = own, kit.FreePort(t), io.Discard, key
	s, err := serf.Create(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Join([]string{ip + ":4648"}, true); err != nil {
		_ = s.Shutdown()
		return nil, err
	}
	return s, nil
}

// twin starts a second agent with a copy of the node's identity.
func (b *bed) twin(t *testing.T) {
	n2 := b.lab.Host("n2")
	from, to := filepath.Join(b.node.Dir, "data", "client"), filepath.Join(n2.Dir, "data", "client")
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"client-id", "secret-id"} {
		body, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), body, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b.work(n2)
	n2.Until(30*time.Second, "the second agent to be refused", func() error {
		if !strings.Contains(log(t, n2), "is the identity of another agent that lives at "+b.node.IP) {
			return errors.New("it does not say so")
		}
		return nil
	})
	told := false
	for _, s := range b.servers {
		told = told || strings.Contains(log(t, s), "two agents have the identity of one node")
	}
	if !told {
		t.Error("no server tells of it")
	}
	n2.Kill9()
	b.servers[0].Ready(1)
	if s := b.node.NodeStatus(b.servers[0]); s != "ready" {
		t.Errorf("the first agent's node is %s", s)
	}
}

// snapshots saves and restores a state of more than 50 MB through each server.
func (b *bed) snapshots(t *testing.T) {
	const each, count = 4 << 20, 7
	for i := range count {
		random := make([]byte, each)
		_, _ = rand.Read(random)
		j := kit.ShellJob(fmt.Sprintf("large-%d", i), "exec sleep 10")
		j.Meta = map[string]string{"words": base64.StdEncoding.EncodeToString(random)}
		none := 0
		j.TaskGroups[0].Count = &none
		b.servers[0].Register(j)
	}
	for i, s := range b.servers {
		began := time.Now()
		r, err := s.API.Operator().Snapshot(nil)
		if err != nil {
			t.Fatalf("save through %s: %v", s.Name, err)
		}
		archive, err := io.ReadAll(r)
		_ = r.Close()
		if err != nil || len(archive) < 50_000_000 {
			t.Fatalf("save through %s: %d bytes, %v", s.Name, len(archive), err)
		}
		saved := time.Since(began)
		after := fmt.Sprintf("after-%d", i)
		none := 0
		j := kit.ShellJob(after, "exec sleep 10")
		j.TaskGroups[0].Count = &none
		s.Register(j)
		began = time.Now()
		s.Until(2*time.Minute, "the restore", func() error { // it is asked for again when the leader changes meanwhile
			_, err := s.API.Operator().SnapshotRestore(bytes.NewReader(archive), nil)
			return err
		})
		t.Logf("%d MB through %s: saved in %s, restored in %s", len(archive)>>20, s.Name, saved.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		s.Until(30*time.Second, "the old state", func() error {
			if _, _, err := s.API.Jobs().Info(after, nil); err == nil || !strings.Contains(err.Error(), "404") {
				return fmt.Errorf("%s is there: %v", after, err)
			}
			_, _, err := s.API.Jobs().Info("large-6", nil)
			return err
		})
	}
}
