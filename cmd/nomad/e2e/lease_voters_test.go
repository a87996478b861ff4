package e2e_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// told are the servers that a node was told of last.
func told(t *testing.T, h *kit.Host) (all []string) {
	t.Helper()
	_ = filepath.WalkDir(filepath.Join(h.Dir, "data"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "servers" && !d.IsDir() {
			body, _ := os.ReadFile(path)
			all = strings.Fields(string(body))
		}
		return nil
	})
	return all
}

// TestLeaseIsNotKeptByAMinorityThatLooksLikeAMajority: five servers vote. Two of them do not move, so that gossip
// thinks them dead and the node is told of three. Then they move again, and in the same moment the network parts:
// the node and two of the three, and the leader with those two.
func TestLeaseIsNotKeptByAMinorityThatLooksLikeAMajority(t *testing.T) {
	t.Parallel()
	lab, servers, holder, _, journal := leaseLabOf(t, 5, "fence")
	if out, code := servers[0].Run("operator", "autopilot", "set-config", "-cleanup-dead-servers=false"); code != 0 {
		t.Fatal(out)
	}
	address, err := servers[0].API.Status().Leader()
	if err != nil {
		t.Fatal(err)
	}
	var leader *kit.Host
	var others []*kit.Host
	for _, s := range servers {
		if strings.HasPrefix(address, s.IP+":") {
			leader = s
		} else {
			others = append(others, s)
		}
	}
	if leader == nil {
		t.Fatalf("no server has the leader's address %s", address)
	}
	near, far := others[:2], others[2:]
	for _, s := range far {
		s.Freeze()
	}
	holder.Until(60*time.Second, "the node to be told of three servers", func() error {
		if all := told(t, holder); len(all) != 3 {
			return fmt.Errorf("it knows %v", all)
		}
		return nil
	})
	for _, s := range append([]*kit.Host{leader}, far...) {
		lab.Partition(holder, s)
	}
	for _, s := range far {
		for _, n := range near {
			lab.Partition(n, s)
		}
	}
	for _, s := range far {
		s.Thaw()
	}
	for _, n := range near {
		lab.Partition(n, leader)
	}
	cut := time.Now()
	if all := told(t, holder); len(all) != 3 {
		t.Skipf("gossip was quicker than the partition: the node knows %v", all)
	}
	old, next := moved(t, leader, journal)
	_, first, last := turns(t, journal)
	t.Logf("old task silent %v after the cut, new one writes after %v (lease %v)", last[old].Sub(cut).Round(time.Millisecond),
		first[next].Sub(cut).Round(time.Millisecond), leaseTerm)
	if gap := first[next].Sub(last[old]); gap <= 0 {
		t.Errorf("two writers for %v", -gap)
	}
	if late := last[old].Sub(cut); late > leaseTerm {
		t.Errorf("the old task wrote until %v after the cut", late)
	}
}
