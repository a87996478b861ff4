package client

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	hostmounts "github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// An agent that is restarted again and again must not give its tasks another term each time.
func TestLeaseGoesOnInTheNextAgentProcess(t *testing.T) {
	boot := hostmounts.System{}.BootID()
	for _, c := range []struct {
		name, body string
		from       int64
	}{
		{"of this boot", boot + " 5\n", 5},
		{"of another boot", "another 5\n", 0},
		{"of the future", boot + " " + strconv.FormatInt(1<<62, 10) + "\n", 0},
		{"damaged", boot, 0},
		{"none", "", 0},
	} {
		dir := t.TempDir()
		if c.body != "" {
			if err := os.WriteFile(filepath.Join(dir, leaseFile), []byte(c.body), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		n := nodeOf(t, dir, electorate{})
		n.lease.born = 7
		n.recallLease()
		if got := n.lease.from.Load(); got != c.from {
			t.Errorf("%s: from %d, want %d", c.name, got, c.from)
		}
		want := c.from
		if want == 0 {
			want = n.lease.born
		}
		if n.lease.since() != want {
			t.Errorf("%s: it counts from %d, want %d", c.name, n.lease.since(), want)
		}
	}
}
