package client

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// electorate answers who leads, by address, as servers do; what is not in it cannot be reached.
type electorate struct {
	Servers
	// known are the addresses of the servers that gossip thinks alive.
	known   []string
	answers map[string]*api.StatusLeaderResponse
}

func (e electorate) Each(ctx context.Context, also []string, fn func(context.Context, wire.Caller)) {
	for _, a := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(e.known, also)))) {
		fn(ctx, one{e.answers[a]})
	}
}

// one is a single server.
type one struct{ answer *api.StatusLeaderResponse }

func (o one) Invoke(_ context.Context, _ string, _, resp any) error {
	if o.answer == nil {
		return fault.New(fault.Unavailable, "no route")
	}
	*resp.(*api.StatusLeaderResponse) = *o.answer
	return nil
}

func voters(index uint64, ids ...string) *api.Voters {
	v := &api.Voters{Index: index, Servers: map[string]string{}}
	for _, id := range ids {
		v.Servers[id] = "at " + id
	}
	return v
}

// leaderless are servers that say that nobody leads.
func leaderless(v *api.Voters, ids ...string) map[string]*api.StatusLeaderResponse {
	out := map[string]*api.StatusLeaderResponse{}
	for _, id := range ids {
		out["at "+id] = &api.StatusLeaderResponse{Server: id, Voters: v}
	}
	return out
}

func nodeOf(t *testing.T, dir string, e electorate) *Client {
	t.Helper()
	c := &Client{conf: Config{Servers: e, StateDir: dir}, log: hclog.NewNullLogger(), table: &table{}}
	c.readVotersFile()
	t.Cleanup(func() { c.files.end() }) // before its directory goes
	return c
}

// Five vote. When the node was heard last, s4 and s5 were marked failed by gossip, so that it was told of s1, s2
// and s3. Then the network parts: the node, s2 and s3, and s1, which leads, with s4 and s5.
func TestLeasesDoNotGoOnByMostOfTheLivingServers(t *testing.T) {
	all := voters(7, "s1", "s2", "s3", "s4", "s5")
	c := nodeOf(t, t.TempDir(), electorate{known: []string{"at s1", "at s2", "at s3"}, answers: leaderless(all, "s2", "s3")})
	c.votersReceived(all)
	c.withoutLeader(t.Context())
	if c.lease.from.Load() > 0 {
		t.Error("2 of 5 voters say that nobody leads, and the leases of the node go on")
	}
}

func TestLeasesGoOnByMostOfTheVoters(t *testing.T) {
	all := voters(7, "s1", "s2", "s3", "s4", "s5")
	c := nodeOf(t, t.TempDir(), electorate{known: []string{"at s1", "at s2"}, answers: leaderless(all, "s3", "s4", "s5")})
	c.votersReceived(all)
	c.withoutLeader(t.Context())
	if c.lease.from.Load() == 0 {
		t.Error("3 of 5 voters, whom gossip thinks dead, say that nobody leads, and the leases end")
	}
}

func TestVotersAreKnownAfterARestart(t *testing.T) {
	dir, all := t.TempDir(), voters(7, "s1", "s2", "s3")
	c := nodeOf(t, dir, electorate{})
	c.votersReceived(voters(3, "s1"))
	c.votersReceived(all)
	c.votersReceived(nil) // they are changing
	c.files.end()
	e := electorate{known: []string{"at s1"}, answers: leaderless(all, "s1")}
	again := nodeOf(t, dir, e)
	if again.withoutLeader(t.Context()); again.lease.from.Load() > 0 {
		t.Error("one of three voters is enough after a restart")
	}
	maps.Copy(e.answers, leaderless(all, "s2"))
	if again.withoutLeader(t.Context()); again.lease.from.Load() == 0 {
		t.Error("two of three voters are not enough after a restart")
	}
}

func TestNodeThatKnowsNoVotersBelievesNobody(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, votersFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := nodeOf(t, dir, electorate{known: []string{"at s1"}, answers: leaderless(voters(1, "s1"), "s1")})
	if c.withoutLeader(t.Context()); c.lease.from.Load() > 0 {
		t.Error("leases go on by the word of servers that may be any")
	}
}
