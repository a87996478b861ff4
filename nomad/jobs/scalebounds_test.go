package jobs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/jobs"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func TestLargeScalingEventsAreRefused(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(web())
	scale := func(message string, meta map[string]any) error {
		_, err := r.Scale(t.Context(), &api.JobScaleRequest{JobID: "web", Target: map[string]string{"Group": "g"}, Message: message, Meta: meta, Error: true})
		return err
	}
	text := strings.Repeat("x", 1024)
	if err := scale(text, map[string]any{"a": text}); err != nil {
		t.Error(err)
	}
	if err := scale(text+"x", nil); err == nil || !strings.Contains(err.Error(), "1025 bytes, at most 1024") {
		t.Errorf("a long message: %v", err)
	}
	if err := scale("", map[string]any{"a": []string{text, text, text, text}}); err == nil || !strings.Contains(err.Error(), "at most 4096") {
		t.Errorf("a large meta: %v", err)
	}
	count := int64(1<<63 - 1)
	if _, err := r.Scale(t.Context(), &api.JobScaleRequest{JobID: "web", Target: map[string]string{"Group": "g"}, Count: &count}); err == nil {
		t.Error("a count of 2^63-1 is accepted")
	}
}

// The events of all groups are one row, which snapshots must be able to hold.
func TestScalingEventsOfAJobAreBoundedTogether(t *testing.T) {
	t.Parallel()
	const want = 5000
	r := open(t)
	r.put(func(tx *state.Txn) {
		j := web()
		j.Namespace, j.TaskGroups = "default", nil
		events := &api.JobScalingEvents{Namespace: "default", JobID: "web", Groups: map[string][]*api.ScalingEvent{}}
		for i := range 1000 {
			name := fmt.Sprint("g", i)
			j.TaskGroups = append(j.TaskGroups, &api.TaskGroup{Name: name})
			events.Groups[name] = repeatEvents(12)
		}
		events.Groups["gone"] = repeatEvents(20)
		tx.PutJob(j)
		tx.PutJobScaling(events)
	})
	tx := r.store.Write(1000, time.Now())
	if _, err := (&jobs.Scale{Namespace: "default", JobID: "web", Group: "g1", Message: "newest", Error: true}).Apply(tx); err != nil {
		t.Fatal(err)
	}
	got, all := tx.JobScaling("default", "web"), 0
	for _, events := range got.Groups {
		all += len(events)
	}
	tx.Abort()
	if all != want || got.Groups["g1"][0].Message != "newest" || got.Groups["gone"] != nil {
		t.Errorf("%d events, want %d", all, want)
	}
}

func repeatEvents(n int) []*api.ScalingEvent {
	all := make([]*api.ScalingEvent, n)
	for i := range all {
		all[i] = &api.ScalingEvent{}
	}
	return all
}
