package rawexec_test

import (
	"context"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// A start that hangs and was ended, by the agent that began it or by the next one, never comes to use the volumes: the
// others of its allocation take them away at the end of their lease.
func TestEndedStartThatHangsKeepsNoLease(t *testing.T) {
	t.Parallel()
	for how := range hangs {
		for name, another := range map[string]bool{"": false, ", by another agent": true} {
			t.Run(how+name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				_, target := published(t)
				term := api.LeaseTerm{Term: 40 * time.Second, WriteBack: 20 * time.Second}
				lease := &driver.Lease{Term: term, From: bootTime(t), Unmount: []string{target}}
				at, asked, answer := fuseThat(t, hangs[how].reportsRoot)
				hung := suite.NewTask(t, sh("sleep 1000"))
				hangs[how].at(hung, at)
				hung.AllocID, hung.Lease = "alloc", lease
				d := newDriver(t, dir)
				if another {
					startInKilledAgent(t, dir, hung, asked)
					h, err := d.Find(suite.Context(t), hung.ID)
					if err != nil {
						t.Fatal(err)
					}
					if err := d.Recover(suite.Context(t), h); err != nil {
						t.Fatal(err)
					}
					if err := d.Stop(context.WithoutCancel(t.Context()), hung.ID, "SIGTERM", time.Millisecond); err != nil {
						t.Errorf("stop: %v", err)
					}
				} else {
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan error, 1)
					go func() { _, err := d.Start(ctx, hung); done <- err }()
					select {
					case <-asked:
					case err := <-done:
						t.Fatalf("it did not hang: %v", err)
					}
					cancel()
					if err := <-done; err == nil {
						t.Fatal("it was started")
					}
				}
				scopes := scopesOf(dir)
				task := suite.NewTask(t, sh("sleep 1000"))
				task.ID, task.AllocID = task.ID+"/beside", "alloc"
				l := *lease
				l.Term, l.From = api.LeaseTerm{Term: 4 * time.Second, WriteBack: 2 * time.Second}, bootTime(t)
				task.Lease = &l
				if _, err := d.Start(suite.Context(t), task); err != nil {
					t.Fatal(err)
				}
				if err := d.Close(); err != nil { // the agent has ended
					t.Fatal(err)
				}
				suite.Eventually(t, "the volume is unmounted", func() bool { return !isMounted(t, target) })
				answer()
				suite.Eventually(t, "no process is left", func() bool { return holders(dir) == 0 })
				for _, s := range scopes {
					suite.Eventually(t, "its cgroup is removed", func() bool { return missing(s) })
				}
			})
		}
	}
}
