package decide

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/soaktest"
)

var rewrite = flag.Bool("rewrite", false, "write the steps into testdata")

// words are the facts that transcripts and properties are made of. Facts of one list exclude each other.
var words = [][]string{
	{"", "single", "device"},
	{"", "stages"},
	{"", "leaving", "touched", "another volume"},
	{"", "found healthy", "found failed", "found unknown", "found by plugin q"},
	{"", "lease over"},
	{"", "user", "user leaves", "user of a device", "user shows", "own user"},
	{"", "unrecorded mount"},
	{"", "hidden"},
	{"", "staged before", "staging begun", "staging as recorded", "staging failed", "staging unknown", "staging unmounted", "staging covered", "session", "stray staging"},
	{"", "other options", "read-only staging"},
	{"", "target mounted", "target of an earlier try"},
	{"", "stale claim"},
}

// learn adds a fact.
func learn(w *Wanted, s *Seen, word string) {
	st := &s.Staging
	done := func(on string, same bool, h Health) {
		st.Recorded, st.Here, st.Done, st.HadMount, st.On, st.Same, st.Health = true, true, true, true, on, same, h
	}
	switch word {
	case "single":
		w.AccessMode = api.AccessSingleNodeWriter
	case "device":
		w.AttachmentMode = api.AttachmentBlock
	case "stages":
		w.Stages = true
	case "leaving":
		s.Before.Leaving = true
	case "touched":
		s.Before = Row{Touched: true, ExternalID: w.ExternalID, PluginID: w.PluginID}
	case "another volume":
		s.Before = Row{Touched: true, ExternalID: "vol-2", PluginID: w.PluginID}
	case "found healthy":
		s.Found = Found{Path: "/t/1", PluginID: w.PluginID}
	case "found failed":
		s.Found = Found{Path: "/t/1", PluginID: w.PluginID, Health: Failed}
	case "found unknown":
		s.Found = Found{Path: "/t/1", PluginID: w.PluginID, Health: Unknown, Why: "statfs has not returned"}
	case "found by plugin q":
		s.Found = Found{Path: "/t/1", PluginID: "q"}
	case "lease over":
		s.LeaseOver = true
	case "user", "user leaves", "user of a device", "user shows", "own user":
		u := User{AllocID: "a2", VolumeID: "vol", AccessMode: w.AccessMode, AttachmentMode: w.AttachmentMode, Leaving: word == "user leaves", Shows: word == "user shows"}
		if word == "user of a device" {
			u.AttachmentMode = api.AttachmentBlock
		}
		if word == "own user" {
			u.AllocID, u.Use = w.AllocID, "second"
		}
		s.Users = append(s.Users, u)
	case "unrecorded mount":
		s.Unrecorded = fault.New(fault.Unavailable, "/t/x is mounted without a record and may use the volume")
	case "hidden":
		s.Hidden = true
	case "staged before": // before the host was started
		st.Recorded, st.Done, st.HadMount = true, true, true
	case "staging begun":
		st.Recorded, st.Here, st.On = true, true, "8:1 (ext4)"
	case "staging as recorded":
		done("8:1 (ext4)", true, Healthy)
	case "staging failed":
		done("8:1 (ext4)", true, Failed)
	case "staging unknown":
		done("8:1 (ext4)", true, Unknown)
		st.Why = "statfs has not returned"
	case "staging unmounted":
		done("", false, Healthy)
	case "staging covered":
		done("8:2 (xfs)", false, Healthy)
	case "session":
		done("", true, Healthy)
		st.HadMount = false
	case "stray staging":
		st.On = "8:2 (xfs)"
	case "other options":
		st.Options = &api.MountOptions{FSType: "xfs"}
		w.Options = &api.MountOptions{FSType: "ext4"}
	case "read-only staging":
		st.AccessMode = api.AccessMultiNodeReader
	case "target mounted":
		s.Target.Mounted = true
	case "target of an earlier try":
		s.Target.Mounted, s.Target.Ours = true, true
	case "stale claim":
		s.Stale = true
	case "recorded":
		s.Recorded = true
	case "staged":
		s.Staged = true
	case "published":
		s.Published = true
	case "nothing published":
		s.Target.Missing, s.Target.Why = true, "the plugin reports success, but nothing is mounted at /t/1"
	case "staging directory published":
		s.Target.StagingDir = true
	case "flags missing":
		s.Target.Flags = "nosuid"
	case "":
	default:
		panic("no fact " + word)
	}
}

func use() Wanted {
	return Wanted{
		AllocID: "a1", ExternalID: "vol-1", PluginID: "p", AccessMode: api.AccessMultiNodeMultiWriter, AttachmentMode: api.AttachmentFileSystem,
		Staging: "/s/1", Lease: time.Minute,
	}
}

// TestSteps compares the step that follows from each list of facts in testdata. -rewrite writes the steps.
func TestSteps(t *testing.T) {
	const name = "testdata/mount.txt"
	all, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for text := range strings.Lines(string(all)) {
		text = strings.TrimRight(text, "\n")
		facts, want, is := strings.Cut(text, " => ")
		if !is {
			out = append(out, text)
			continue
		}
		w, s := use(), Seen{}
		for f := range strings.SplitSeq(facts, ",") {
			learn(&w, &s, strings.TrimSpace(f))
		}
		got := line(Mount(w, s))
		out = append(out, facts+" => "+got)
		if got != want && !*rewrite {
			t.Errorf("%s:\n got %s\nwant %s", facts, got, want)
		}
	}
	if *rewrite {
		if err := os.WriteFile(name, []byte(strings.Join(out, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func line(s Step) string {
	switch {
	case s.Reason == nil:
		return string(s.Action)
	case s.Action == Refuse:
		return fmt.Sprintf("%s (%s): %s", s.Action, fault.Of(s.Reason), s.Reason)
	default:
		return fmt.Sprintf("%s: %s", s.Action, s.Reason)
	}
}

// each calls check with combinations of the facts: all of them in make soak, one of 29 otherwise.
func each(check func(facts []string, w Wanted, s Seen)) {
	facts, step, n := make([]string, len(words)), 29, 0
	if soaktest.On() {
		step = 1
	}
	var rec func(i int, w Wanted, s Seen)
	rec = func(i int, w Wanted, s Seen) {
		if i == len(words) {
			if n++; n%step == 0 {
				check(facts, w, s)
			}
			return
		}
		for _, word := range words[i] {
			facts[i] = word
			w, s := w, s
			s.Users = slices.Clone(s.Users)
			learn(&w, &s, word)
			rec(i+1, w, s)
		}
	}
	rec(0, use(), Seen{})
}

// TestCombinations executes the steps from combinations of the facts, with a plugin that does what it is asked
// for, and checks the invariants of the package.
func TestCombinations(t *testing.T) {
	ends := map[Action]int{}
	each(func(facts []string, w Wanted, s Seen) {
		bad := func(format string, args ...any) {
			t.Fatalf("%s: %s", strings.Join(slices.DeleteFunc(slices.Clone(facts), func(f string) bool { return f == "" }), ", "), fmt.Sprintf(format, args...))
		}
		for range Rounds {
			step := Mount(w, s)
			if again := Mount(w, s); again.Action != step.Action {
				bad("%s, then %s", step.Action, again.Action)
			}
			if slices.Contains([]Action{Unpublish, Unstage, Stage, Publish}, step.Action) && (!s.Recorded || s.Stale) {
				bad("%s without a record or under a stale claim", step.Action)
			}
			switch step.Action {
			case Refuse:
				if step.Reason == nil || fault.Of(step.Reason) == fault.Internal {
					bad("refused because of %v", step.Reason)
				}
				ends[Refuse]++
				return
			case Mounted, Adopt, Claim:
				if step.Action == Mounted && (!s.Published || w.Stages && !s.Staged && s.Staging.On == "" && s.Staging.HadMount) {
					bad("mounted without having been published or staged")
				}
				ends[step.Action]++
				return
			case Record:
				if w.AccessMode.SingleUser() && len(s.Users) > 0 || s.LeaseOver || s.Before.Leaving {
					bad("recorded")
				}
				s.Recorded = true
			case Unpublish:
				s.Target.Mounted, s.Target.Ours = false, false
			case Unstage:
				if len(s.Users) > 0 || s.Target.Mounted || s.Staging.On != "" && s.Unrecorded != nil {
					bad("unstaged in use")
				}
				s.Staging = Staging{}
			case Stage:
				if !w.Stages {
					bad("staged by a plugin that does not stage")
				}
				s.Staged = true
			case Publish:
				if w.Stages && !s.Staged && !(s.Staging.Done && s.Staging.Same && s.Staging.Health == Healthy) {
					bad("published without a staging")
				}
				s.Published, s.Target = true, Target{Mounted: true, Ours: true}
			default:
				bad("unexpected step %s", step.Action)
			}
		}
		bad("more than %d steps", Rounds)
	})
	for _, a := range []Action{Refuse, Mounted, Adopt, Claim} {
		if ends[a] == 0 {
			t.Errorf("no combination ends with %s: %v", a, slices.Collect(maps.Keys(ends)))
		}
	}
	t.Log(ends)
}

// TestReplies checks every combination of what is known after a call.
func TestReplies(t *testing.T) {
	for n := range 1 << 7 {
		bit := func(i int) bool { return n>>i&1 == 1 }
		r := Reply{There: bit(0), Succeeded: bit(1), Absent: bit(2), Answered: bit(3), Own: bit(4), Unseen: bit(5), Once: bit(6)}
		if r.Succeeded && r.Absent || (r.Succeeded || r.Absent) && !r.Answered {
			continue
		}
		got := r.Removed()
		switch {
		case r.There && got != Unmount && got != Again:
			t.Errorf("%+v: %s while it is there", r, got)
		case got == Unmount && !r.Own:
			t.Errorf("%+v: the node unmounts what it may not", r)
		case got == Abandoned && !(r.Own && r.Unseen):
			t.Errorf("%+v: abandoned without need", r)
		case !r.There && r.Succeeded && got != Removed:
			t.Errorf("%+v: %s after a success", r, got)
		case !r.There && !r.Answered && !r.Own && got != Again:
			t.Errorf("%+v: %s without a reply", r, got)
		case r.Own && got == Again:
			t.Errorf("%+v: the node waits although it may unmount", r)
		}
	}
}
