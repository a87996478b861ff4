package cluster

import (
	"flag"
	"slices"
	"strings"
	"testing"
)

// planted is within how many seeds each planted bug must be found: few of them take long to find, and the
// usual run plants those that do not.
var planted = flag.Int("planted", 0, "within how many seeds each planted bug must be found; 0 looks for the quick ones only")

// slow are bugs that take more than a few seeds.
var slow = []Bug{BugNoFence, BugEarlyClaim, BugSilentLeader, BugDeafLeader, BugUnresumed, BugStaleMounts, BugWriteBack, BugNotFound, BugVerdictLost, BugHungPlaces, BugPurged}

// rare are bugs that a few hundred seeds do not show; they are planted when more are played.
var rare = []Bug{BugForgetful, BugToldServers}

// TestEveryPlantedBugIsFound breaks one thing after the other and expects the simulation to tell.
func TestEveryPlantedBugIsFound(t *testing.T) {
	if *seed != 0 || raced {
		t.Skip("one seed is played, or all are slow under the race detector")
	}
	within := *planted
	bugs := Bugs()
	if *planted > 300 {
		bugs = append(bugs, rare...)
	}
	for _, bug := range bugs {
		if *planted == 0 {
			if within = 24; slices.Contains(slow, bug) {
				continue
			}
		}
		t.Run(strings.ReplaceAll(string(bug), " ", "-"), func(t *testing.T) {
			w, _ := playAll(t, 1, uint64(within), bug)
			if w == nil {
				t.Fatalf("%d seeds did not tell", within)
			}
			t.Logf("seed %d: %s", w.seed, w.broken)
		})
	}
}

// TestStoriesAreAboutSomething keeps the simulation covering: each of these events happens within some seeds.
func TestStoriesAreAboutSomething(t *testing.T) {
	if *seed != 0 || raced {
		t.Skip("one seed is played, or all are slow under the race detector")
	}
	missing := []string{
		"is cut off", "is reachable again", "the agent of", "reboots", "vanishes", "is killed", "is alone",
		"leads no more", "wins term", "of unknown outcome", "the lease of", "the servers have no leader",
		"fenced by provider", "fenced by lease", "assumed by operator", "assumed by policy", "mounts", "unmounts", "CreateVolume", "DeleteVolume", "ControllerExpandVolume",
		"Reap", "Reconcile", "user: Volume.Register twin-0 of 0", "starts twin-0", "BeginExpand twin-0", "BeginDelete twin-", "Deregister twin-0", "Deregister made-0", "names the same external volume",
		"installs the snapshot", "is destroyed", "the voters are", "an older state is restored", "Node.Purge n",
	}
	const most = 200
	for seed := range uint64(most) {
		w := play(t, seed+1, Options{Steps: *steps})
		if w.broken != "" {
			t.Fatalf("seed %d: %s", w.seed, w.broken)
		}
		story := w.Story()
		missing = slices.DeleteFunc(missing, func(what string) bool { return strings.Contains(story, what) })
		if len(missing) == 0 {
			t.Logf("%d seeds", seed+1)
			return
		}
	}
	t.Errorf("no story of %d seeds has %q", most, missing)
}

var same = flag.Int("same", 10, "how many seeds are played twice")

// TestSameSeedTellsTheSameStory keeps failures reproducible, but for what is left to Go: see DESIGN.md of package sim.
func TestSameSeedTellsTheSameStory(t *testing.T) {
	if *seed != 0 {
		t.Skip("one seed is played")
	}
	others := 0
	for seed := range uint64(*same) {
		a, b := play(t, seed+1, Options{Steps: *steps}), play(t, seed+1, Options{Steps: *steps})
		if a.Story() == b.Story() && a.tally == b.tally {
			continue
		}
		others++
		x, y := a.lines, b.lines
		i := 0
		for i < min(len(x), len(y))-1 && x[i] == y[i] {
			i++
		}
		t.Logf("the stories of seed %d differ:\n%s\n%s", seed+1, x[i], y[i])
	}
	if others > *same/2 { // on a busy machine; see DESIGN.md of package sim
		t.Errorf("%d of %d seeds told another story", others, *same)
	}
}
