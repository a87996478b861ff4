package volumes_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

func told(t *testing.T, r *volumestest.Rig, volume string) (list []string) {
	t.Helper()
	out, err := r.Service.Timeline(r.Context(), &api.VolumeTimelineRequest{ID: volume})
	if err != nil || !out.Known {
		t.Fatalf("the timeline: %+v %v", out, err)
	}
	for _, e := range out.Events {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.What, e.Result, e.AllocID)))
		if e.Time == 0 || e.Index == 0 || e.Result == "done" && e.Took == 0 {
			t.Errorf("incomplete: %+v", e)
		}
	}
	return list
}

// The timeline has each step of a volume's life, in the raft entries that make them, and survives a restore.
func TestTimelineHasTheLifeOfAVolume(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	if err := r.Create(volumestest.Made("v")); err != nil {
		t.Fatal(err)
	}
	n.Says("Controller.Publish", codes.Unavailable, "the array reboots")
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.Eventually("the attach fails", func(tx *state.Txn) bool {
		l := tx.Timeline("default", "v")
		return l != nil && slices.ContainsFunc(l.Events, func(e *api.VolumeEvent) bool {
			return e.Result == "failed" && strings.Contains(e.Text, "the array reboots")
		})
	})
	n.On("Controller.Publish", nil)
	r.MustClaim("v", "a1", "n1")
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Unmounted("v", "a1", "n1")
	r.Free("v")
	got := slices.Compact(told(t, r.Rig, "v"))
	want := []string{
		"create begun", "create done", "claim taken a1", "attach begun", "attach failed", "claim ready a1", "attach done", "claim releasing a1",
		"claim unmounted a1", "detach begun", "claim ended a1", "detach done",
	}
	sorted := func(l []string) []string { return slices.Sorted(slices.Values(l)) }
	if !slices.Equal(sorted(got), sorted(want)) {
		t.Errorf("got %q", got)
	}
	before := r.State.Read().Timeline("default", "v")
	var b bytes.Buffer
	if err := r.State.Read().Dump(&b); err != nil {
		t.Fatal(err)
	}
	restored := state.New()
	if err := restored.Restore(&b); err != nil || !reflect.DeepEqual(restored.Read().Timeline("default", "v"), before) {
		t.Errorf("after a restore: %+v %v", restored.Read().Timeline("default", "v"), err)
	}
	if out, err := r.Service.Timeline(r.Context(), &api.VolumeTimelineRequest{ID: "v", Last: 2}); err != nil || len(out.Events) != 2 {
		t.Errorf("the last entries: %+v %v", out, err)
	}
	if err := r.Delete("v"); err != nil {
		t.Fatal(err)
	}
	if l := r.State.Read().Timeline("default", "v"); l != nil {
		t.Errorf("it is left after the deletion: %+v", l)
	}
}
