package rawexec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// TestChainsOfProcessesEnd: each process begins the next one and ends, so that a look at the table finds only ended ones.
func TestChainsOfProcessesEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		next      string
		noCgroups bool
	}{
		"in one group":                        {next: `"$0" &`},
		"each in a session":                   {next: `setsid "$0" &`},
		"in one group, without a cgroup":      {next: `"$0" &`, noCgroups: true},
		"each in a session, without a cgroup": {next: `setsid "$0" &`, noCgroups: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t, t.TempDir(), func(conf *rawexec.Config) { conf.NoCgroups = c.noCgroups })
			link := filepath.Join(t.TempDir(), "next")
			// The file that each looks for ends the chain when this test has failed.
			script := "#!/bin/sh\n[ -e " + link + ".end ] && exit\ndate +%s%N > " + link + ".last\n" + c.next + "\n"
			if err := os.WriteFile(link, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.WriteFile(link+".end", nil, 0o600) })
			task := suite.NewTask(t, sh(link+"; sleep 1000"))
			if _, err := d.Start(suite.Context(t), task); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
			last := func() string { b, _ := os.ReadFile(link + ".last"); return strings.TrimSpace(string(b)) }
			first := ""
			suite.Eventually(t, "the chain goes", func() bool {
				now := last()
				if first == "" {
					first = now
				}
				return now != first
			})
			began := time.Now()
			if err := d.Stop(suite.Context(t), task.ID, "SIGURG", 100*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("the end took %s", took)
			}
			for range 50 {
				if lives(link) {
					t.Fatal("the chain goes on")
				}
			}
		})
	}
}

// lives reports whether some process has a file in its command line.
func lives(file string) bool {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range lines {
		if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), file) {
			return true
		}
	}
	return false
}
