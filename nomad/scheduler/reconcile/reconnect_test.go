package reconcile_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// away makes a group of one whose allocation a0 was out of sight and whose replacement is a1; both nodes are ready.
func away(option api.ReconcileOption) (reconcile.Input, *api.Allocation, *api.Allocation) {
	in, allocs := group(1, 0, 0)
	original, replacement := allocs[0], allocs[1]
	in.Job.TaskGroups[0].Disconnect = &api.DisconnectStrategy{LostAfter: time.Hour, Replace: true, Reconcile: &option}
	in.Job.TaskGroups[0].Tasks = []*api.Task{{Name: "main"}}
	original.AllocStates = []*api.AllocState{{Value: api.AllocClientStatusUnknown, Time: epoch}, {Value: api.AllocClientStatusRunning, Time: epoch}}
	original.NextAllocation, replacement.PreviousAllocation = replacement.ID, original.ID
	original.CreateIndex, replacement.CreateIndex = 1, 2
	for i, a := range allocs {
		a.TaskStates = map[string]*api.TaskState{"main": {State: api.TaskStateRunning, StartedAt: epoch.Add(time.Duration(i) * time.Minute)}}
		a.Metrics = &api.AllocationMetric{ScoreMetaData: []*api.NodeScoreMeta{{NodeID: "other", NormScore: 9}, {NodeID: "n", NormScore: float64(i)}}}
	}
	return in, original, replacement
}

func TestOneOfAPairStaysAfterAReconnect(t *testing.T) {
	for name, c := range map[string]struct {
		option api.ReconcileOption
		change func(original, replacement *api.Allocation)
		stops  string
	}{
		"keep original":                {api.ReconcileOptionKeepOriginal, nil, "a1"},
		"keep replacement":             {api.ReconcileOptionKeepReplacement, nil, "a0"},
		"longest running":              {api.ReconcileOptionLongestRunning, nil, "a1"},
		"better score":                 {api.ReconcileOptionBestScore, nil, "a0"},
		"not said, better score":       {"", nil, "a0"},
		"equal score":                  {api.ReconcileOptionBestScore, func(o, r *api.Allocation) { r.Metrics = o.Metrics }, "a1"},
		"replacement does not run yet": {api.ReconcileOptionBestScore, func(_, r *api.Allocation) { r.ClientStatus = api.AllocClientStatusPending }, "a1"},
		"longest running, the other way": {api.ReconcileOptionLongestRunning, func(o, _ *api.Allocation) {
			o.TaskStates["main"].StartedAt = epoch.Add(time.Hour)
		}, "a0"},
		"newer version wins": {api.ReconcileOptionKeepOriginal, func(o, r *api.Allocation) {
			old := *o.Job
			o.Job, r.Job.Version, r.Job.JobModifyIndex = &old, 3, 9
		}, "a0"},
	} {
		in, original, replacement := away(c.option)
		if c.change != nil {
			c.change(original, replacement)
		}
		r := reconcile.Group(in)
		if len(r.Stop) != 1 || r.Stop[0].Alloc.ID != c.stops || r.Stop[0].ClientStatus != "" || len(r.Place) != 0 || len(r.StatusUpdates) != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestUnknownAllocationIsAwaitedAfterAReconnect(t *testing.T) {
	in, original, _ := away(api.ReconcileOptionKeepOriginal)
	original.ClientStatus = api.AllocClientStatusUnknown
	if r := reconcile.Group(in); len(r.Stop)+len(r.Place)+len(r.StatusUpdates)+len(r.Update) != 0 {
		t.Errorf("something is done before the node reports: %+v", r)
	}
	in.Allocs = in.Allocs[:1] // no replacement found a place: none is wanted any more
	if r := reconcile.Group(in); len(r.Stop)+len(r.Place) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestAllocationIsNotReplacedWhereThatIsNotWanted(t *testing.T) {
	in, allocs := group(1, 0)
	in.Job.TaskGroups[0].Disconnect = &api.DisconnectStrategy{LostAfter: time.Hour}
	for _, status := range []string{api.NodeStatusDisconnected, api.NodeStatusDown} {
		allocs[0].ClientStatus = api.AllocClientStatusRunning
		in.Node = func(string) *api.Node { return &api.Node{Status: status} }
		r := reconcile.Group(in)
		if len(r.StatusUpdates) != 1 || len(r.Place)+len(r.Stop) != 0 {
			t.Errorf("%s: %+v", status, r)
		}
		allocs[0].ClientStatus, allocs[0].FollowupEvalID = api.AllocClientStatusUnknown, "next"
		in.Pending = func(id string) bool { return id == "next" }
		if r := reconcile.Group(in); len(r.StatusUpdates)+len(r.Place)+len(r.Stop) != 0 {
			t.Errorf("%s, once more: %+v", status, r)
		}
	}
}

func TestReplacementWaitsUntilTheNodeHasStoppedItsAllocation(t *testing.T) {
	in, allocs := group(1, 0)
	in.Job.TaskGroups[0].Disconnect = &api.DisconnectStrategy{StopOnClientAfter: time.Minute, Replace: true}
	in.Job.TaskGroups[0].Tasks = []*api.Task{{Name: "main", KillTimeout: 5 * time.Second}}
	in.Node = func(string) *api.Node {
		return &api.Node{Status: api.NodeStatusDown, StatusUpdatedAt: epoch.Unix(), Silence: 20 * time.Second}
	}
	r := reconcile.Group(in)
	due := epoch.Add(47 * time.Second) // 60 s and 5 s after it was heard, and 2 s of slack
	if len(r.StatusUpdates) != 1 || !r.StatusUpdates[0].RescheduleAt.Equal(due) || len(r.Place)+len(r.Stop) != 0 {
		t.Fatalf("%+v", r)
	}
	allocs[0].ClientStatus, in.Now = api.AllocClientStatusUnknown, due
	if r := reconcile.Group(in); len(r.Stop) != 1 || r.Stop[0].ClientStatus != api.AllocClientStatusLost || len(r.Place) != 1 {
		t.Fatalf("when it is over: %+v", r)
	}
}

func TestDeprecatedFieldsSayTheSame(t *testing.T) {
	in, _ := group(1, 0)
	in.Job.TaskGroups[0].MaxClientDisconnect = time.Hour
	in.Node = func(string) *api.Node { return &api.Node{Status: api.NodeStatusDisconnected} }
	if r := reconcile.Group(in); len(r.StatusUpdates) != 1 || len(r.Place) != 1 || len(r.Stop) != 0 {
		t.Errorf("max_client_disconnect: %+v", r)
	}
	in, _ = group(1, 0)
	in.Job.TaskGroups[0].StopAfterClientDisconnect = time.Hour
	in.Node = func(string) *api.Node { return &api.Node{Status: api.NodeStatusDown, StatusUpdatedAt: epoch.Unix()} }
	if r := reconcile.Group(in); len(r.StatusUpdates) != 1 || len(r.Place)+len(r.Stop) != 0 {
		t.Errorf("stop_after_client_disconnect: %+v", r)
	}
}

// Batch work that was finished out of sight is finished: its replacement does not go on with it.
func TestWorkFinishedOutOfSightIsNotDoneTwice(t *testing.T) {
	for _, option := range []api.ReconcileOption{"", api.ReconcileOptionBestScore, api.ReconcileOptionLongestRunning, api.ReconcileOptionKeepOriginal} {
		in, original, replacement := away(option)
		in.Job.Type = api.JobTypeBatch
		original.ClientStatus = api.AllocClientStatusComplete
		original.TaskStates["main"].State = api.TaskStateDead
		r := reconcile.Group(in)
		if len(r.Stop) != 1 || r.Stop[0].Alloc != replacement {
			for _, s := range r.Stop {
				t.Errorf("%q: %s is stopped (%s)", option, s.Alloc.ID, s.Alloc.ClientStatus)
			}
		}
	}
}

// While a node was away an operator, or a policy, may have given its volumes to others: what still runs on their mounts
// there is the loser of each pair, and is replaced where nobody replaced it yet.
func TestAllocationWhoseVolumeWasGivenUpDoesNotStay(t *testing.T) {
	for option, status := range map[api.ReconcileOption]string{
		api.ReconcileOptionKeepOriginal: api.NodeStatusReady, api.ReconcileOptionLongestRunning: api.NodeStatusInit,
	} {
		in, original, replacement := away(option)
		var mounts []*api.StaleMount
		in.Node = func(string) *api.Node { return &api.Node{Status: status, StaleMounts: mounts} }
		mounts = []*api.StaleMount{{AllocID: original.ID, Shared: true}, {AllocID: "other"}}
		if r := reconcile.Group(in); len(r.Stop) != 1 || r.Stop[0].Alloc != replacement {
			t.Errorf("%s: nothing of its own was given up: %+v", option, r)
		}
		mounts = []*api.StaleMount{{AllocID: original.ID}}
		if r := reconcile.Group(in); len(r.Stop) != 1 || r.Stop[0].Alloc != original || r.Stop[0].ClientStatus != "" || len(r.Place) != 0 {
			t.Errorf("%s: %+v", option, r)
		}
		in.Allocs = []*api.Allocation{original}
		r := reconcile.Group(in)
		if len(r.Stop) != 1 || len(r.Place) != 1 || r.Place[0].Previous != original {
			t.Errorf("%s, without replacement: %+v", option, r)
		}
		stopped := *original // no place was found
		stopped.DesiredStatus, stopped.DesiredDescription = api.AllocDesiredStatusStop, r.Stop[0].Description
		stopped.NextAllocation = ""
		in.Allocs = []*api.Allocation{&stopped}
		if r := reconcile.Group(in); len(r.Stop) != 0 || len(r.Place) != 1 || r.Place[0].Previous != &stopped {
			t.Errorf("%s, later: %+v", option, r)
		}
	}
}
