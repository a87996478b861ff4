package timeline_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/timeline"
)

// A timeline stays below its bounds whatever texts and however many entries it gets.
func TestTimelinesAreBounded(t *testing.T) {
	long := strings.Repeat("ä", 5000)
	var history []*api.VolumeEvent
	for i := range 3 * api.VolumeEventsMax {
		before := history
		kept := len(before)
		e := &api.VolumeEvent{What: "attach", Result: "failed", Text: long[:2*(i%7+1)] + long, AllocID: strings.Repeat("a", 36), NodeID: strings.Repeat("n", 36), JobID: long}
		if i%2 == 0 {
			e.What = "detach"
		}
		history = timeline.Append(history, []*api.VolumeEvent{e}, timeline.Moment{Now: int64(i), Index: uint64(i)})
		if len(before) != kept {
			t.Fatal("the earlier history was changed")
		}
	}
	l := &api.VolumeTimeline{Namespace: "default", VolumeID: "v", Events: history}
	b, err := l.MarshalMsg(nil)
	if err != nil || len(history) != api.VolumeEventsMax || len(b) > 64<<10 {
		t.Fatalf("%d entries, %d bytes, %v", len(history), len(b), err)
	}
	if last := history[len(history)-1]; last.Time != 3*api.VolumeEventsMax-1 || !strings.HasSuffix(last.Text, "...") || strings.ContainsRune(last.Text, '\uFFFD') {
		t.Errorf("the last entry is %+v", last)
	}
}

// One raft entry may change more than a timeline holds, as the claims of a volume on thousands of nodes.
func TestManyEntriesAtOnceReplaceTheHistory(t *testing.T) {
	history := []*api.VolumeEvent{{What: "create"}}
	for _, count := range []int{api.VolumeEventsMax, api.VolumeEventsMax + 1, 50 * api.VolumeEventsMax} {
		var more []*api.VolumeEvent
		for i := range count {
			more = append(more, &api.VolumeEvent{What: "claim", AllocID: strings.Repeat("a", i%7) + time.Duration(i).String()})
		}
		got := timeline.Append(history, more, timeline.Moment{Now: 1})
		if len(got) != api.VolumeEventsMax || got[len(got)-1].AllocID != more[count-1].AllocID || got[0].What != "claim" {
			t.Errorf("%d entries became %d", count, len(got))
		}
	}
}

func TestEqualEntriesAreCounted(t *testing.T) {
	var history []*api.VolumeEvent
	for i := range 3 {
		history = timeline.Append(history, []*api.VolumeEvent{{What: "detach", Result: "failed", Text: "busy"}}, timeline.Moment{Now: int64(i + 1)})
	}
	history = timeline.Append(history, []*api.VolumeEvent{{What: "detach", Result: "done"}}, timeline.Moment{Now: 9})
	if len(history) != 2 || history[0].Count != 3 || history[0].Time != 3 || history[1].Count != 0 {
		t.Errorf("got %+v and %+v", history[0], history[len(history)-1])
	}
}

func TestChangesOfAttachments(t *testing.T) {
	row := func(state api.AttachmentState, text string) *api.VolumeAttachment {
		return &api.VolumeAttachment{NodeID: "n1", State: state, LastError: text, Since: int64(time.Second)}
	}
	m := timeline.Moment{Now: int64(3 * time.Second), Call: timeline.Call{Took: time.Millisecond}}
	for name, c := range map[string]struct {
		before, after *api.VolumeAttachment
		want          string
	}{
		"attach":           {nil, row(api.AttachmentPublishing, ""), "attach begun 0s 0s"},
		"attached":         {row(api.AttachmentPublishing, ""), row(api.AttachmentPublished, ""), "attach done 2s 1ms"},
		"failed":           {row(api.AttachmentPublishing, ""), row(api.AttachmentPublishing, "no"), "attach failed 2s 1ms no"},
		"detach":           {row(api.AttachmentPublished, ""), row(api.AttachmentUnpublishing, ""), "detach begun 0s 0s"},
		"detached":         {row(api.AttachmentUnpublishing, ""), nil, "detach done 2s 1ms"},
		"detach fails":     {row(api.AttachmentUnpublishing, ""), row(api.AttachmentUnpublishing, "busy"), "detach failed 2s 1ms busy"},
		"attached again":   {row(api.AttachmentUnpublishing, ""), row(api.AttachmentPublishing, ""), "detach done 2s 1ms; attach begun 0s 0s"},
		"nothing of note":  {row(api.AttachmentPublished, ""), row(api.AttachmentPublished, ""), ""},
		"written off":      {row(api.AttachmentUnpublishing, "no"), row(api.AttachmentWrittenOff, ""), "detach written off 0s 0s an operator asserts that it is detached; the driver is still asked"},
		"written off, end": {row(api.AttachmentWrittenOff, "no"), nil, "detach done 2s 1ms"},
	} {
		var got []string
		for _, e := range timeline.OfAttachment(c.before, c.after, m) {
			got = append(got, strings.TrimSpace(strings.Join([]string{e.What, e.Result, e.After.String(), e.Took.String(), e.Text}, " ")))
		}
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("%s: %q", name, s)
		}
	}
}
