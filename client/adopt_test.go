package client

import (
	"context"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/store"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// surviving is a driver with one attempt that an earlier agent began.
type surviving struct {
	driver.Driver
	id       string
	takenUps int
}

func (s *surviving) Find(_ context.Context, id string) (*driver.Handle, error) {
	if id != s.id {
		return nil, fault.New(fault.NotFound, "task %s", id)
	}
	return &driver.Handle{Driver: "d", TaskID: id}, nil
}

func (s *surviving) Recover(context.Context, *driver.Handle) error { s.takenUps++; return nil }

// An attempt that is on no record is taken up at once, so that its lease goes on: its task may wait for long before it looks.
func TestAttemptThatIsNotOnRecordIsTakenUp(t *testing.T) {
	job := &api.Job{TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{{Name: "t", Driver: "d"}}}}}
	a := &api.Allocation{ID: "a", TaskGroup: "g", Job: job}
	for name, c := range map[string]struct {
		id   string
		take func(*Client)
	}{
		"a first one": {"a/t/1", func(n *Client) {
			n.adopt(t.Context(), map[string]*store.AllocRecord{"a": {Alloc: a}})
		}},
		"a later one": {"a/t/3", func(n *Client) {
			n.adopt(t.Context(), map[string]*store.AllocRecord{"a": {Alloc: a, Tasks: map[string]*store.TaskRecord{"t": {Attempt: 2}}}})
		}},
		"of an allocation that the servers know": {"a/t/1", func(n *Client) { n.endUnknownTasks(t.Context(), []*api.Allocation{a}) }},
	} {
		d := &surviving{id: c.id}
		n := nodeOf(t, t.TempDir(), electorate{})
		n.drivers = map[string]*adopted{"d": {Driver: d, answers: map[string]error{}}}
		c.take(n)
		if d.takenUps != 1 {
			t.Errorf("%s: taken up %d times", name, d.takenUps)
		}
		if err := n.drivers["d"].Recover(t.Context(), &driver.Handle{TaskID: c.id}); err != nil || d.takenUps != 1 {
			t.Errorf("%s: when its task asks: %v, taken up %d times", name, err, d.takenUps)
		}
	}
}
