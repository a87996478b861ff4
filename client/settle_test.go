package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/internal/retry"
	hostmounts "github.com/open-nomad/open-nomad/plugins/csi/mounts"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts/mountstest"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// listing are servers whose answers about the node's allocations are empty, and wait as long as they are asked to.
type listing struct{ electorate }

func (listing) Invoke(ctx context.Context, _ string, req, resp any) error {
	r, out := req.(*api.NodeAssignmentsRequest), resp.(*api.NodeAssignmentsResponse)
	if r.MinIndex > 0 {
		retry.Sleep(ctx, r.MaxWait)
	}
	out.Index = 7
	return ctx.Err()
}

// stubborn is a driver that fails to end what nobody knows for some times.
type stubborn struct {
	driver.Driver
	fails int
	mu    sync.Mutex
	// spared is what it was asked to spare the last time.
	spared []string
}

func (s *stubborn) Name() string { return "d" }

func (s *stubborn) Prune(_ context.Context, spare []string, all bool) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spared = spare
	if s.fails--; all && s.fails >= 0 {
		return nil, errors.New("a supervising process does not answer")
	}
	return nil, nil
}

func (*stubborn) Recover(context.Context, *driver.Handle) error {
	return fault.New(fault.Unavailable, "the supervising process is busy")
}

// shelf is a bucket without anything in it.
type shelf struct{}

func (shelf) Get(string) ([]byte, error)      { return nil, nil }
func (shelf) Put(string, []byte) error        { return nil }
func (shelf) Delete(string) error             { return nil }
func (shelf) All() (map[string][]byte, error) { return nil, nil }

// Mounts of nobody wait until all tasks have ended that nobody knows. A driver that cannot end them at first is asked again.
func TestTasksThatNobodyKnowsAreEndedUntilItHolds(t *testing.T) {
	for name, fails := range map[string]int{"at once": 0, "later": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host := mountstest.New("n1")
				foreign := "/state/csi/node/p/t/foreign"
				if err := errors.Join(host.MakeDir(foreign), host.Mount("9:9", "ext4", foreign, hostmounts.Flags{})); err != nil {
					t.Fatal(err)
				}
				d := &stubborn{fails: fails}
				c := nodeOf(t, t.TempDir(), electorate{})
				c.conf.Servers, c.table, c.registered = listing{}, newTable(), make(chan struct{})
				c.drivers = map[string]*adopted{"d": {Driver: d, answers: map[string]error{}}}
				close(c.registered)
				var err error
				c.volumes, err = volumes.New(volumes.Config{
					StateDir: "/state", NodeID: func() string { return "n1" }, Servers: c.conf.Servers, Journal: shelf{}, Registry: shelf{}, Host: host,
				})
				if err != nil {
					t.Fatal(err)
				}
				c.volumes.Restored(nil)
				ctx, end := context.WithCancel(t.Context())
				var all sync.WaitGroup
				all.Go(func() { _ = c.volumes.Run(ctx) })
				all.Go(func() { _ = c.followAssignments(ctx, ctx) })
				defer all.Wait()
				defer end()
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if at, _ := host.At(foreign); at != nil {
					t.Errorf("a mount of nobody is there after 10 minutes; %d failures of the driver are left", d.fails)
				}
			})
		})
	}
}

// A task that could be neither taken up nor given up is spared, and keeps nobody from ending the others.
func TestTaskThatIsNotReachedIsSpared(t *testing.T) {
	d := &stubborn{}
	c := nodeOf(t, t.TempDir(), electorate{})
	c.table = newTable()
	c.drivers = map[string]*adopted{"d": {Driver: d, answers: map[string]error{}}}
	c.drivers["d"].adopt(t.Context(), &driver.Handle{Driver: "d", TaskID: "a/t/4"})
	c.endUnknownTasks(t.Context(), nil)
	if !c.pruned || !slices.Contains(d.spared, "a/t/4") {
		t.Errorf("spared are %q, all others have ended: %v", d.spared, c.pruned)
	}
}
