package operator_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/fsm/archive"
	"github.com/open-nomad/open-nomad/nomad/operator"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// fakeArchive hands out and takes bytes instead of a state.
type fakeArchive struct {
	body     []byte
	restored []byte
	refuse   error
}

func (a *fakeArchive) SaveArchive(_ context.Context, w io.Writer, _ bool) (archive.Meta, error) {
	_, err := w.Write(a.body)
	return archive.Meta{}, err
}

func (a *fakeArchive) RestoreArchive(_ context.Context, r io.Reader, _ bool) (err error) {
	if a.refuse != nil {
		return a.refuse
	}
	a.restored, err = io.ReadAll(r)
	return err
}

type peers struct{ removed, leader string }

func (p *peers) RemoveServer(_ context.Context, id string) error { p.removed = id; return nil }
func (p *peers) TransferLeadership(_ context.Context, id, _ string) error {
	p.leader = id
	return nil
}

// three is a log with three peers.
type three struct{ *fsm.Local }

func (three) LeaderAddress() string { return "10.0.0.1:4647" }
func (three) Configuration() (*api.RaftConfiguration, error) {
	return &api.RaftConfiguration{Servers: []*api.RaftServer{
		{ID: "s1", Address: "10.0.0.1:4647", Leader: true, Voter: true},
		{ID: "s2", Address: "10.0.0.2:4647", Voter: true},
		{ID: "s3", Address: "10.0.0.3:4647"},
	}}, nil
}

func (three) Voters() (*api.Voters, bool, error) {
	return &api.Voters{Index: 4, Servers: map[string]string{"s1": "10.0.0.1:4647", "s2": "10.0.0.2:4647"}}, false, nil
}

func newService(t *testing.T) (*operator.Service, *fakeArchive, *peers) {
	t.Helper()
	s := state.New()
	a, p := &fakeArchive{}, &peers{}
	return operator.New(operator.Config{State: s, Raft: three{fsm.NewLocal(s, registry())}, Archive: a, Cluster: p, Dir: t.TempDir()}), a, p
}

func TestPeersAreNamedByIDOrAddress(t *testing.T) {
	t.Parallel()
	r, _, p := newService(t)
	if _, err := r.RemovePeer(t.Context(), &api.RaftPeerRequest{ID: "s3"}); err != nil || p.removed != "s3" {
		t.Errorf("removed %q %v", p.removed, err)
	}
	out, err := r.TransferLeadership(t.Context(), &api.RaftPeerRequest{Address: "10.0.0.2:4647"})
	if err != nil || p.leader != "s2" || out.From.ID != "s1" || out.To.ID != "s2" || out.Noop {
		t.Errorf("transfer to %q: %+v %v", p.leader, out, err)
	}
	if out, err := r.TransferLeadership(t.Context(), &api.RaftPeerRequest{ID: "s1"}); err != nil || !out.Noop || p.leader != "s2" {
		t.Errorf("transfer to the leader: %+v %v", out, err)
	}
	for _, bad := range []*api.RaftPeerRequest{{}, {ID: "s9"}, {ID: "s1", Address: "10.0.0.2:4647"}, {ID: "s3"}} {
		if _, err := r.TransferLeadership(t.Context(), bad); !errors.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestAutopilotConfigComparesAndSets(t *testing.T) {
	t.Parallel()
	r, _, _ := newService(t)
	got, err := r.AutopilotConfig(t.Context(), &api.QueryOptions{})
	if err != nil || *got.Config != *api.DefaultAutopilot() {
		t.Fatalf("default %+v %v", got, err)
	}
	set := func(c api.AutopilotConfiguration, cas bool) bool {
		t.Helper()
		out, err := r.SetAutopilotConfig(t.Context(), &api.AutopilotConfigRequest{Config: &c, CAS: cas})
		if err != nil {
			t.Fatal(err)
		}
		return out.Updated
	}
	if !set(api.AutopilotConfiguration{MinQuorum: 3}, true) {
		t.Error("the first configuration was refused at index 0")
	}
	if set(api.AutopilotConfiguration{MinQuorum: 5}, true) {
		t.Error("a stale configuration was taken")
	}
	if _, err := r.SetAutopilotConfig(t.Context(), &api.AutopilotConfigRequest{Config: &api.AutopilotConfiguration{LastContactThreshold: -1}}); !errors.Is(err, fault.Invalid) {
		t.Error(err)
	}
	if got, _ := r.AutopilotConfig(t.Context(), &api.QueryOptions{}); got.Config.MinQuorum != 3 {
		t.Errorf("stored %+v", got.Config)
	}
}

func TestSnapshotsGoInPieces(t *testing.T) {
	t.Parallel()
	r, a, _ := newService(t)
	a.body = bytes.Repeat([]byte("0123456789abcdef"), 200_000) // 3.2 MB
	var got []byte
	req := &api.SnapshotReadRequest{}
	for {
		out, err := r.ReadSnapshot(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, out.Data...)
		req.Token, req.Offset = out.Token, int64(len(got))
		if out.EOF {
			sum := sha256.Sum256(a.body)
			if out.Size != int64(len(a.body)) || out.Digest != base64.StdEncoding.EncodeToString(sum[:]) {
				t.Errorf("size %d, digest %s", out.Size, out.Digest)
			}
			break
		}
	}
	if !bytes.Equal(got, a.body) {
		t.Fatalf("%d bytes came of %d", len(got), len(a.body))
	}

	back := &api.SnapshotRestoreRequest{}
	for len(got) > 0 {
		n := min(len(got), 1<<20)
		back.Data, back.Last = got[:n], n == len(got)
		out, err := r.RestoreSnapshot(t.Context(), back)
		if err != nil {
			t.Fatal(err)
		}
		back.Token, back.Offset, got = out.Token, back.Offset+int64(n), got[n:]
	}
	if !bytes.Equal(a.restored, a.body) {
		t.Errorf("%d bytes were restored", len(a.restored))
	}
}

func TestRestoredSnapshotsAreBounded(t *testing.T) {
	t.Parallel()
	s := state.New()
	room := int64(1000)
	r := operator.New(operator.Config{
		State: s, Raft: three{fsm.NewLocal(s, registry())}, Archive: &fakeArchive{}, Cluster: &peers{}, Dir: t.TempDir(),
		SnapshotMax: 100, FreeBytes: func(*os.File) (int64, error) { return room, nil },
	})
	send := func(first, second int) error {
		out, err := r.RestoreSnapshot(t.Context(), &api.SnapshotRestoreRequest{Data: make([]byte, first)})
		if err != nil {
			return err
		}
		_, err = r.RestoreSnapshot(t.Context(), &api.SnapshotRestoreRequest{Token: out.Token, Offset: int64(first), Data: make([]byte, second), Last: true})
		return err
	}
	for range 5 { // what was refused takes no place
		if err := send(60, 41); !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "larger than 100 bytes") {
			t.Errorf("101 bytes: %v", err)
		}
	}
	if err := send(60, 40); err != nil {
		t.Errorf("100 bytes: %v", err)
	}
	room = 80 // after 40 bytes and with 40 to come
	if err := send(40, 40); !errors.Is(err, fault.Exhausted) || !strings.Contains(err.Error(), "has room for 80 more") {
		t.Errorf("a full disk: %v", err)
	}
}

func TestRestoreRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	r, a, _ := newService(t)
	first, err := r.RestoreSnapshot(t.Context(), &api.SnapshotRestoreRequest{Data: []byte("abc")})
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []*api.SnapshotRestoreRequest{
		{Token: "other", Offset: 3, Data: []byte("d")},
		{Token: first.Token, Offset: 9, Data: []byte("d")},
	} {
		if _, err := r.RestoreSnapshot(t.Context(), bad); !errors.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	a.refuse = fault.New(fault.Invalid, "broken")
	if _, err := r.RestoreSnapshot(t.Context(), &api.SnapshotRestoreRequest{Token: first.Token, Offset: 3, Last: true}); !errors.Is(err, fault.Invalid) {
		t.Error(err)
	}
	for range 2 {
		if _, err := r.RestoreSnapshot(t.Context(), &api.SnapshotRestoreRequest{Data: []byte("x")}); err != nil && !errors.Is(err, fault.Exhausted) {
			t.Fatal(err)
		}
	}
	if _, err := r.RestoreSnapshot(t.Context(), &api.SnapshotRestoreRequest{Data: []byte("x")}); !errors.Is(err, fault.Exhausted) {
		t.Errorf("a third restore at once: %v", err)
	}
}
