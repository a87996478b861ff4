package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// ledger is what writers were told.
type ledger struct {
	mu sync.Mutex
	// versions is the last acknowledged version of each job, by its meta entry.
	versions map[string]int
	acked    int
}

// writing registers one job over and over with a rising number, at one server after the other, and
// notes what was acknowledged.
func (l *ledger) writing(ctx context.Context, servers []*kit.Host, job string) error {
	for n := 1; ctx.Err() == nil; n++ {
		s := servers[n%len(servers)]
		client, err := api.NewClient(&api.Config{Address: fmt.Sprintf("http://%s:4646", s.IP), HttpClient: &http.Client{Timeout: 2 * time.Second}})
		if err != nil {
			return err
		}
		j := kit.ShellJob(job, "exec sleep 1000")
		j.TaskGroups[0].Count = ptr(0)
		j.Meta = map[string]string{"number": fmt.Sprint(n)}
		if _, _, err := client.Jobs().Register(j, nil); err != nil {
			continue // it may or may not have been written
		}
		l.mu.Lock()
		l.versions[job], l.acked = n, l.acked+1
		l.mu.Unlock()
	}
	return nil
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked
}

func TestAcknowledgedWritesSurviveKilledLeaders(t *testing.T) {
	t.Parallel()
	const kills, writers = 12, 4
	c := newCluster(t)
	l := &ledger{versions: map[string]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			if err := l.writing(ctx, c.servers, fmt.Sprint("j", i)); err != nil {
				t.Errorf("writer %d: %v", i, err)
			}
		})
	}
	for range kills {
		old := c.leader(nil)
		before := l.count()
		old.Until(20*time.Second, "more writes", func() error {
			if n := l.count() - before; n < 20 {
				return fmt.Errorf("%d writes", n)
			}
			return nil
		})
		old.Kill9()
		c.leader(old)
		old.Restart()
		c.leader(nil)
		c.voters(3)
	}
	cancel()
	wg.Wait()
	now := c.leader(nil)
	lost := 0
	for job, want := range l.versions {
		info, _, err := now.API.Jobs().Info(job, nil)
		if err != nil {
			t.Errorf("job %s is lost: %v", job, err)
			lost++
			continue
		}
		// A later write whose answer was lost may be there too.
		if got := info.Meta["number"]; len(got) < len(fmt.Sprint(want)) || len(got) == len(fmt.Sprint(want)) && got < fmt.Sprint(want) {
			t.Errorf("job %s has number %s, acknowledged was %d", job, got, want)
			lost++
		}
	}
	for _, s := range c.servers {
		s.Until(20*time.Second, s.Name+" to have all writes", func() error {
			for job := range l.versions {
				a, _, err := s.API.Jobs().Info(job, &api.QueryOptions{AllowStale: true})
				if err != nil {
					return err
				}
				b, _, err := now.API.Jobs().Info(job, nil)
				if err != nil {
					return err
				}
				if a.Meta["number"] != b.Meta["number"] {
					return fmt.Errorf("%s has %s of job %s, the leader has %s", s.Name, a.Meta["number"], job, b.Meta["number"])
				}
			}
			return nil
		})
	}
	kit.Measured(t, fmt.Sprintf("cluster | %d kills of the leader under %d writers | %d acknowledged, %d lost | 0 lost", kills, writers, l.acked, lost))
}
