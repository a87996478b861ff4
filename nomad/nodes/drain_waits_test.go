package nodes

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func TestDrainSaysWhichVolumesItWaitsFor(t *testing.T) {
	t.Parallel()
	w, start := drainWaits{}, time.Unix(1000, 0)
	tell := func(after time.Duration, left ...string) string {
		t.Helper()
		now := start.Add(after)
		text, again := w.news("n1", left, now)
		if len(left) > 0 && !again.After(now) || len(left) == 0 && !again.IsZero() {
			t.Errorf("after %s: look again at %s", after, again)
		}
		if text != "" {
			w.reported("n1", text, now)
		}
		return text
	}
	for _, c := range []struct {
		after time.Duration
		left  string
		want  string
	}{
		{0, "a b", ""},
		{drainWaitsAfter, "a b", "a; b"},
		{drainWaitsAfter + 1, "b", ""},
		{drainWaitsAfter + drainWaitsEvery, "b", "b"},
		{drainWaitsAfter + 2*drainWaitsEvery, "b", ""},
		{drainWaitsAfter + 3*drainWaitsEvery, "a b c d e", "a; b; c; and 2 more"},
		{time.Hour, "", ""},
		{time.Hour, "a", ""},
	} {
		if got := tell(c.after, strings.Fields(c.left)...); got != c.want {
			t.Errorf("after %s: %q, want %q", c.after, got, c.want)
		}
	}
	w.keep(map[string]bool{})
	if len(w) != 0 {
		t.Errorf("a node that does not drain is remembered: %v", w)
	}
}

func TestVolumesLeftNameTheirErrorAndTheCommandThatEndsThem(t *testing.T) {
	t.Parallel()
	s := state.New()
	tx := s.Write(1, time.Unix(1, 0))
	tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: "a", NodeID: "n1", PluginID: "p", ExternalID: "x", State: api.ClaimReleasing, LastError: "target is busy\nsecond line"})
	tx.PutClaim(&api.VolumeClaim{Namespace: "apps", VolumeID: "v 2", AllocID: "d", NodeID: "n1", PluginID: "p", ExternalID: "x2", State: api.ClaimReleasing})
	tx.PutClaim(&api.VolumeClaim{Namespace: "default", VolumeID: "w", AllocID: "b", NodeID: "n1", PluginID: "p", ExternalID: "y", State: api.ClaimWaiting})
	tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "y", NodeID: "n1", State: api.AttachmentUnpublishing, LastError: strings.Repeat("x", 1000)})
	n := &api.Node{
		ID: "n1", Status: api.NodeStatusReady, StaleMounts: []*api.StaleMount{{VolumeID: "z", AllocID: "c"}},
		CSINodePlugins: map[string]*api.CSIInfo{"p": {PluginID: "p", Healthy: true}},
	}
	tx.PutNode(n)
	tx.Commit()
	want := []string{
		`external volume "y" of plugin "p" is attached: ` + strings.Repeat("x", causeMax) + `... (nomad volume attachments -node n1)`,
		`volume "v 2" is mounted for allocation d (nomad volume detach -namespace apps 'v 2' n1)`,
		`volume "v" is mounted for allocation a: target is busy (nomad volume detach v n1)`,
		`volume "z" is mounted for allocation c, which was abandoned (nomad volume attachments -node n1)`,
	}
	if got := volumesLeft(s.Read(), n); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	down := *n
	down.Status = api.NodeStatusDown
	tx = s.Write(2, time.Unix(2, 0))
	tx.PutNode(&down)
	tx.Commit()
	got := volumesLeft(s.Read(), &down)
	if len(got) != 3 {
		t.Errorf("a node that is down is asked for mounts that were given up: %q", got)
	}
	if !strings.Contains(strings.Join(got, "\n"), "(nomad volume detach -force v n1)") {
		t.Errorf("a node that is down is named to be asked: %q", got)
	}
}

func TestNewsOfWhatADrainWaitsForAreAnEventOfTheNode(t *testing.T) {
	t.Parallel()
	s := state.New()
	tx := s.Write(1, time.Unix(1, 0))
	tx.PutNode(&api.Node{ID: "n1", DrainStrategy: &api.DrainStrategy{}})
	if _, err := (&StepDrain{NodeID: "n1", Waits: "volume v"}).Apply(tx); err != nil {
		t.Fatal(err)
	}
	n := tx.Node("n1")
	if n.DrainStrategy == nil || len(n.Events) != 1 || n.Events[0].Message != "Node drain waits for volumes: volume v" || n.Events[0].Subsystem != api.NodeEventSubsystemDrain {
		t.Errorf("%+v", n)
	}
}
