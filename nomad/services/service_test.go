package services_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/services"
	"github.com/open-nomad/open-nomad/nomad/state"
)

type fixture struct {
	*services.Service
	t     *testing.T
	store *state.Store
}

func open(t *testing.T) *fixture {
	s := state.New()
	f := &fixture{services.New(services.Config{State: s, Raft: fsm.NewLocal(s, fsm.NewRegistry(services.Commands))}), t, s}
	f.write(func(tx *state.Txn) {
		tx.PutNode(&api.Node{ID: "n1", Datacenter: "dc1", Attributes: map[string]string{"unique.network.ip-address": "127.0.0.1"}})
		tx.PutJob(f.job("default", "a"))
	})
	return f
}

func (f *fixture) write(change func(*state.Txn)) {
	tx := f.store.Write(f.store.Read().Index()+1, time.Unix(1000, 0))
	change(tx)
	tx.Commit()
}

func (f *fixture) job(ns string, tags ...string) *api.Job {
	return &api.Job{
		ID: "j", Name: "j", Namespace: ns,
		TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{{Name: "t"}}, Services: []*api.Service{{Name: "web", PortLabel: "80", Provider: "nomad", Tags: tags}}}},
	}
}

func (f *fixture) alloc(id, ns, desired string, tags ...string) {
	f.write(func(tx *state.Txn) {
		tx.PutAlloc(&api.Allocation{
			ID: id, Namespace: ns, JobID: "j", Job: f.job(ns, tags...), NodeID: "n1", TaskGroup: "g", DesiredStatus: desired,
			ClientStatus: api.AllocClientStatusRunning, TaskStates: map[string]*api.TaskState{"t": {State: api.TaskStateRunning}},
		})
	})
}

func (f *fixture) get(choose string) []string {
	f.t.Helper()
	out, err := f.Get(f.t.Context(), &api.ServiceRequest{ServiceName: "web", Choose: choose})
	if err != nil {
		f.t.Fatal(err)
	}
	var ids []string
	for _, r := range out.Instances {
		ids = append(ids, r.AllocID)
	}
	slices.Sort(ids)
	return ids
}

func TestInstancesComeAndEndWithTheirAllocations(t *testing.T) {
	f := open(t)
	f.alloc("a1", "default", api.AllocDesiredStatusRun, "b", "a")
	f.alloc("a2", "default", api.AllocDesiredStatusRun, "c")
	f.alloc("a3", "other", api.AllocDesiredStatusRun)
	list, err := f.List(t.Context(), &api.QueryOptions{Namespace: "*"})
	if err != nil || len(list.Services) != 2 || list.Services[0].Namespace != "default" || !slices.Equal(list.Services[0].Services[0].Tags, []string{"a", "b", "c"}) {
		t.Fatalf("list: %+v, %v", list, err)
	}
	for prefix, want := range map[string]int{"w": 1, "x": 0} {
		if list, err := f.List(t.Context(), &api.QueryOptions{Prefix: prefix}); err != nil || len(list.Services) != want {
			t.Errorf("prefix %s: %+v, %v", prefix, list, err)
		}
		if list, err := f.List(t.Context(), &api.QueryOptions{Prefix: prefix, Namespace: "*"}); err != nil || len(list.Services) != 2*want {
			t.Errorf("prefix %s in all namespaces: %+v, %v", prefix, list, err)
		}
	}
	if got := f.get(""); !slices.Equal(got, []string{"a1", "a2"}) {
		t.Errorf("instances: %v", got)
	}
	before := f.store.Read().ServiceInstance("_nomad-task-a1-group-g-web-80")
	f.alloc("a1", "default", api.AllocDesiredStatusRun, "b", "a")
	if now := f.store.Read().ServiceInstance(before.ID); now != before {
		t.Error("an instance that does not change was written again")
	}
	f.alloc("a1", "default", api.AllocDesiredStatusRun, "new")
	if now := f.store.Read().ServiceInstance(before.ID); !slices.Equal(now.Tags, []string{"new"}) || now.CreateIndex != before.CreateIndex || now.ModifyIndex <= before.ModifyIndex {
		t.Errorf("after a change of the tags: %+v, before %+v", now, before)
	}
	f.alloc("a1", "default", api.AllocDesiredStatusStop)
	f.write(func(tx *state.Txn) { tx.DeleteAlloc("a2") })
	if got := f.get(""); len(got) > 0 {
		t.Errorf("after the end of the allocations: %v", got)
	}
	if list, err := f.List(t.Context(), &api.QueryOptions{}); err != nil || len(list.Services) > 0 {
		t.Errorf("list: %+v, %v", list, err)
	}
}

// The index of a service changes with its instances, and wakes its readers.
func TestReadersWaitForTheirService(t *testing.T) {
	f := open(t)
	f.alloc("a1", "default", api.AllocDesiredStatusRun)
	first, err := f.Get(t.Context(), &api.ServiceRequest{ServiceName: "web"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	woken := make(chan *api.ServiceInstancesResponse, 1)
	go func() {
		out, _ := f.Get(ctx, &api.ServiceRequest{ServiceName: "web", QueryOptions: api.QueryOptions{MinIndex: first.Index}})
		woken <- out
	}()
	f.alloc("a2", "default", api.AllocDesiredStatusRun)
	if out := <-woken; out == nil || len(out.Instances) != 2 || out.Index <= first.Index {
		t.Errorf("woken with %+v", out)
	}
}

func TestAChoiceStaysWhileItsInstancesAreThere(t *testing.T) {
	f := open(t)
	for _, id := range []string{"a1", "a2", "a3", "a4"} {
		f.alloc(id, "default", api.AllocDesiredStatusRun)
	}
	two := f.get("2|key")
	if len(two) != 2 || !slices.Equal(two, f.get("2|key")) || len(f.get("9|key")) != 4 {
		t.Fatalf("chosen: %v", two)
	}
	for _, id := range []string{"a1", "a2", "a3", "a4"} {
		if !slices.Contains(two, id) {
			f.alloc(id, "default", api.AllocDesiredStatusStop)
			break
		}
	}
	if got := f.get("2|key"); !slices.Equal(got, two) {
		t.Errorf("the choice is %v after another instance ended, before %v", got, two)
	}
	for _, bad := range []string{"x", "0|k", "-1|k", "1|", "|k", "1"} {
		if _, err := f.Get(t.Context(), &api.ServiceRequest{ServiceName: "web", Choose: bad}); !errors.Is(err, fault.Invalid) {
			t.Errorf("choose %q: %v", bad, err)
		}
	}
}

func TestInstancesAreDeletedByServiceAndID(t *testing.T) {
	f := open(t)
	f.alloc("a1", "default", api.AllocDesiredStatusRun)
	const id = "_nomad-task-a1-group-g-web-80"
	for _, r := range []api.ServiceDeleteRequest{{ServiceName: "other", ID: id}, {ServiceName: "web", ID: "x"}, {ServiceName: "web", ID: id, WriteRequest: api.WriteRequest{Namespace: "other"}}} {
		if _, err := f.Delete(t.Context(), &r); !errors.Is(err, fault.NotFound) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if of, err := f.OfAlloc(t.Context(), &api.AllocRequest{AllocID: "a1"}); err != nil || len(of.Instances) != 1 {
		t.Errorf("of the allocation: %+v, %v", of, err)
	}
	if _, err := f.Delete(t.Context(), &api.ServiceDeleteRequest{ServiceName: "web", ID: id}); err != nil {
		t.Fatal(err)
	}
	if of, err := f.OfJob(t.Context(), &api.JobRequest{JobID: "j"}); err != nil || len(of.Instances) != 0 {
		t.Errorf("of the job: %+v, %v", of, err)
	}
	for _, err := range []error{
		func() error { _, err := f.OfAlloc(t.Context(), &api.AllocRequest{AllocID: "x"}); return err }(),
		func() error { _, err := f.OfJob(t.Context(), &api.JobRequest{JobID: "x"}); return err }(),
	} {
		if !errors.Is(err, fault.NotFound) {
			t.Errorf("what does not exist: %v", err)
		}
	}
}
