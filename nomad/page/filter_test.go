package page

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
)

type named struct{ Name string }

func list(rows []*named, view func(*named) any) List[*named, *named] {
	l := Stored(Sorted(rows, func(n *named) string { return n.Name }), func(n *named) string { return n.Name })
	if view != nil {
		l.View = view
	}
	return l
}

func TestLongFiltersAreRefused(t *testing.T) {
	rows := []*named{{"x"}}
	long := strings.Repeat("not ", filterBytes/4) + `Name == "x"`
	if _, _, err := Of(t.Context(), &api.QueryOptions{Filter: long}, list(rows, nil)); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "filter has") {
		t.Error(err)
	}
	short := strings.Repeat(`Name == "y" or `, 500) + `Name == "x"`
	if kept, _, err := Of(t.Context(), &api.QueryOptions{Filter: short}, list(rows, nil)); err != nil || len(kept) != 1 {
		t.Errorf("%d rows: %v", len(kept), err)
	}
}

// What a row lacks selects nothing, at any depth and in any place of an expression; what its type lacks is an error.
func TestFiltersOfWhatRowsLack(t *testing.T) {
	healthy := true
	rows := map[string]any{
		"service": &api.Job{Type: "service", Update: &api.UpdateStrategy{MaxParallel: 1}, Meta: map[string]string{"team": "x", `a "b`: "c"}, Datacenters: []string{"dc1"}},
		"batch":   &api.Job{Type: "batch"},
		"alloc": &api.Allocation{
			ClientStatus: "running", DeploymentStatus: &api.AllocDeploymentStatus{Healthy: &healthy},
			TaskStates: map[string]*api.TaskState{"web": {State: "running"}, "none": nil},
		},
		"bare": &api.Allocation{ClientStatus: "pending"},
	}
	for _, c := range []struct{ row, filter, want string }{
		{"service", `Update.MaxParallel == 1`, "true"},
		{"batch", `Update.MaxParallel == 1`, "false"},
		{"batch", `Update.MaxParallel != 1`, "true"},
		{"batch", `not Update.MaxParallel == 1`, "true"},
		{"batch", `Update.MaxParallel == 1 or Type == batch`, "true"},
		{"batch", `Update is nil`, "true"},
		{"service", `Update is not nil`, "true"},
		{"batch", `Update.MaxParalel == 1`, `UpdateStrategy has no field "MaxParalel"`},
		{"service", `Typ == batch`, `Job has no field "Typ"`},
		{"service", `Type.Name == batch`, `a string has no field "Name"`},
		{"service", `Meta.team == x`, "true"},
		{"service", "Meta[`a \"b`] == c", "true"},
		{"service", `Meta.other == x`, "false"},
		{"service", `"team" in Meta and "dc1" in Datacenters`, "true"},
		{"service", `"dc2" not in Datacenters`, "true"},
		{"batch", `"dc1" in Datacenters`, "false"},
		{"service", `Type matches "^ser"`, "true"},
		{"service", `Update.MaxParallel == x`, "failed to read filter expression"},
		{"service", `any Datacenters as d { d == "dc1" }`, "true"},
		{"service", `all Meta as k, v { v != "y" and k is not empty }`, "true"},
		{"service", `any Meta as v { v == "x" or Type == batch }`, "false"},
		{"batch", `any TaskGroups as g { g.Update.MaxParallel == 1 }`, "false"},
		{"service", `any Type as t { t == 1 }`, "neither a list nor a map"},
		{"alloc", `TaskStates.web.State == running`, "true"},
		{"alloc", `TaskStates.none.State == running`, "false"},
		{"alloc", `TaskStates.db.State == running or ClientStatus == running`, "true"},
		{"alloc", `DeploymentStatus.Healthy == true`, "true"},
		{"bare", `DeploymentStatus.Healthy == true`, "false"},
		{"bare", `DeploymentStatus.Healthy != true`, "true"},
		{"bare", `Job.TaskGroups.0.Name == g`, "false"},
		{"bare", `Job.TaskGroups.0.Nam == g`, `TaskGroup has no field "Nam"`},
	} {
		f, err := readFilter(t.Context(), c.filter)
		if err != nil {
			t.Fatal(err)
		}
		ok, err := f.matches(rows[c.row])
		switch {
		case c.want == "true" || c.want == "false":
			if err != nil || ok != (c.want == "true") {
				t.Errorf("%s of %s: %v, %v", c.filter, c.row, ok, err)
			}
		case !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s of %s: %v, %v", c.filter, c.row, ok, err)
		}
	}
}

// A filter that takes long for each of many rows lets others in between, and ends with its request.
func TestFiltersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := cpulimit.New(1)
		ctx, giveUp := context.WithCancel(turns.For(t.Context(), "a"))
		var rows atomic.Int32
		ended := make(chan error, 1)
		all := make([]*named, 1000)
		for i := range all {
			all[i] = &named{strings.Repeat("x", i)}
		}
		go func() {
			_, _, err := Of(ctx, &api.QueryOptions{Filter: `Name == "x"`}, list(all, func(*named) any {
				time.Sleep(turnTime)
				rows.Add(1)
				return named{"x"}
			}))
			ended <- err
		}()
		time.Sleep(turnTime / 2)
		if err := cpulimit.Short(turns.For(t.Context(), "b"), func() error { return nil }); err != nil || rows.Load() > 2 {
			t.Errorf("after %d rows: %v", rows.Load(), err)
		}
		giveUp()
		if err := <-ended; !errors.Is(err, context.Canceled) || rows.Load() > 10 {
			t.Errorf("after %d rows: %v", rows.Load(), err)
		}
	})
}

// A page with a filter is the part of the filtered list from its token on, whether or not the row of the token is there.
func TestPagesOfAFilteredList(t *testing.T) {
	rows := []*named{{"a1"}, {"a2"}, {"b1"}, {"a3"}, {"a4"}}
	for _, c := range []struct {
		q          api.QueryOptions
		want, next string
	}{
		{api.QueryOptions{}, "a1 a2 a3 a4 b1", ""},
		{api.QueryOptions{PerPage: 2}, "a1 a2", "a3"},
		{api.QueryOptions{PerPage: 5}, "a1 a2 a3 a4 b1", ""},
		{api.QueryOptions{PerPage: 2, Filter: `Name != "a2"`}, "a1 a3", "a4"},
		{api.QueryOptions{PerPage: 2, NextToken: "a22"}, "a3 a4", "b1"},
		{api.QueryOptions{PerPage: 3, Reverse: true, NextToken: "a5"}, "a4 a3 a2", "a1"},
		{api.QueryOptions{Prefix: "a", PerPage: 4}, "a1 a2 a3 a4", ""},
		{api.QueryOptions{Prefix: "c"}, "", ""},
	} {
		got, next, err := Of(t.Context(), &c.q, list(rows, nil))
		var names []string
		for _, r := range got {
			names = append(names, r.Name)
		}
		if text := strings.Join(names, " "); err != nil || text != c.want || next != c.next || got == nil {
			t.Errorf("%+v: %q, next %q, %v", c.q, text, next, err)
		}
	}
}
