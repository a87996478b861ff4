package client

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/client/volumes"
	hostmounts "github.com/open-nomad/open-nomad/plugins/csi/mounts"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts/mountstest"
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
		n.readLeaseFile()
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

// Nobody knows for how long the servers were not heard before the agent started: they may have given away what is mounted.
func TestLeasesWithoutANoteAreOver(t *testing.T) {
	l := api.LeaseTerm{Term: 5 * time.Minute}
	for name, c := range map[string]struct {
		body string
		over bool
	}{
		"no note":              {"", true},
		"of nothing":           {(hostmounts.System{}).BootID() + " 0 1 0\n", true},
		"of another boot":      {"another 5\n", true},
		"a note":               {(hostmounts.System{}).BootID() + " NOW 300000000000 0\n", false},
		"of an earlier format": {(hostmounts.System{}).BootID() + " NOW\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodeOf(t, t.TempDir(), electorate{})
			n.volumes = leased(t, mountstest.New("n"), l.Term)
			if c.body != "" {
				body := strings.ReplaceAll(c.body, "NOW", strconv.FormatInt(bootTime(), 10))
				if err := os.WriteFile(filepath.Join(n.conf.StateDir, leaseFile), []byte(body), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			n.lease.born = bootTime()
			n.readLeaseFile()
			if over := n.silence() >= l.Stop(); over != c.over {
				t.Errorf("a silence of %s, want over: %v", n.silence(), c.over)
			}
		})
	}
}

// Nothing is mounted under a lease of which nobody would know after a restart. An older note does: it ends it early.
func TestPromiseIsRefusedWhereItCannotBeNoted(t *testing.T) {
	dir := t.TempDir()
	n := nodeOf(t, dir, electorate{})
	n.volumes = leased(t, mountstest.New("n"), 5*time.Minute)
	n.lease.from.Store(7)
	block := filepath.Join(dir, leaseFile+".new")
	if err := os.Mkdir(block, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := n.promise(); !errors.Is(err, fault.Unavailable) {
		t.Errorf("promise: %v", err)
	}
	if err := os.Remove(block); err != nil {
		t.Fatal(err)
	}
	if err := n.promise(); err != nil {
		t.Error(err)
	}
	next := nodeOf(t, dir, electorate{})
	next.volumes = n.volumes
	if next.readLeaseFile(); next.lease.since() != 7 {
		t.Errorf("the next agent counts from %d", next.lease.since())
	}
	if err := os.Mkdir(block, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := n.promise(); err != nil {
		t.Errorf("with an older note: %v", err)
	}
}

// leased is a service with one mount under a lease.
func leased(t *testing.T, host *mountstest.Host, term time.Duration) *volumes.Service {
	t.Helper()
	return leasedFrom(t, electorate{}, host, term)
}

func leasedFrom(t *testing.T, servers wire.Caller, host *mountstest.Host, term time.Duration) *volumes.Service {
	t.Helper()
	row, err := json.Marshal(map[string]any{
		"State": "mounted", "AllocID": "a", "Namespace": "default", "VolumeID": "v", "PluginID": "p", "ExternalID": "v",
		"Target": map[string]string{"Host": "/t", "Plugin": "/t"}, "BootID": host.BootID(), "Lease": term,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := host.MakeDir("/t"); err != nil {
		t.Fatal(err)
	}
	if err := host.Mount("7:1", "ext4", "/t", hostmounts.Flags{}); err != nil {
		t.Fatal(err)
	}
	s, err := volumes.New(volumes.Config{
		StateDir: "/state", NodeID: func() string { return "n" }, Servers: servers, Host: host,
		Journal: records{"row/a/" + csiplugins.Hash("default", "v"): row}, Registry: records{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// records is a bucket in memory.
type records map[string][]byte

func (r records) Get(k string) ([]byte, error)    { return r[k], nil }
func (r records) Put(k string, v []byte) error    { r[k] = v; return nil }
func (r records) Delete(k string) error           { delete(r, k); return nil }
func (r records) All() (map[string][]byte, error) { return r, nil }

// A host that slept for longer than its lease may be answered before it notices: the volumes are somebody else's by
// then.
func TestHeartbeatAfterASleepEndsTheLeasesThatItMissed(t *testing.T) {
	const lease = 5 * time.Minute
	for name, c := range map[string]struct {
		slept time.Duration
		left  bool
	}{"short": {time.Minute, true}, "long": {lease, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host := mountstest.New("n")
				n := nodeOf(t, t.TempDir(), electorate{})
				n.volumes = leased(t, host, lease)
				n.lease.from.Store(int64(time.Hour))
				n.renewLeases(int64(time.Hour + c.slept))
				synctest.Wait()
				if at, _ := host.At("/t"); (at != nil) != c.left {
					t.Errorf("mounted: %v", at != nil)
				}
			})
		})
	}
}
