package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// journal reads what the tasks wrote on the volume, from the driver's own directory. It is empty until one of them,
// which runs already, has come as far.
func journal(t *testing.T, a *kit.Agent) string {
	t.Helper()
	return journalIn(t, a.Dir+"/hp")
}

func journalIn(t *testing.T, storage string) string {
	t.Helper()
	found := ""
	_ = filepath.WalkDir(storage, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == "journal" {
			found = path
		}
		return nil
	})
	if found == "" {
		return ""
	}
	body, err := os.ReadFile(found)
	if err != nil {
		t.Fatalf("journal: %v", err)
	}
	return string(body)
}

// noOverlap fails when one instance beats after another one started.
func noOverlap(t *testing.T, journal string) {
	t.Helper()
	if journal == "" {
		t.Fatal("nobody wrote anything")
	}
	owner := ""
	for i, line := range strings.Split(strings.TrimSpace(journal), "\n") {
		word, id, _ := strings.Cut(line, " ")
		if word == "start" {
			owner = id
		} else if id != owner {
			t.Fatalf("line %d: %s writes %q while %s holds the volume", i+1, id, word, owner)
		}
	}
}

// none answers an error when a path contains one of the parts.
func none(paths []string, parts ...string) error {
	for _, p := range paths {
		for _, part := range parts {
			if strings.Contains(p, part) && !strings.HasSuffix(p, "/csi") {
				return fmt.Errorf("%s is mounted", p)
			}
		}
	}
	return nil
}

// isShell tells whether a process has the command line of a job's shell.
func isShell(pid int) bool {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.HasPrefix(string(cmdline), "/bin/sh\x00-c\x00")
}

// lasting are the agent's processes without those that a job's shell starts for a moment, such as its sleep.
func lasting(a *kit.Agent) []int {
	return slices.DeleteFunc(a.Processes(), func(pid int) bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return true
		}
		var state string
		var parent int
		_, err = fmt.Sscan(string(stat[bytes.LastIndexByte(stat, ')')+1:]), &state, &parent)
		return err != nil || isShell(parent)
	})
}

func reschedule(attempts int, unlimited bool) *api.ReschedulePolicy {
	interval, delay, function := time.Hour, 5*time.Second, "constant"
	return &api.ReschedulePolicy{Attempts: &attempts, Unlimited: &unlimited, Interval: &interval, Delay: &delay, DelayFunction: &function}
}
