package quotas_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/quotas"
	"github.com/open-nomad/open-nomad/nomad/state"
)

type fixture struct {
	*quotas.Service
	t     *testing.T
	state *state.Store
}

func open(t *testing.T) fixture {
	t.Helper()
	s := state.New()
	return fixture{quotas.New(quotas.Config{State: s, Raft: fsm.NewLocal(s, fsm.NewRegistry(quotas.Commands))}), t, s}
}

func (f fixture) given(put func(tx *state.Txn)) {
	tx := f.state.Write(f.state.Read().Index()+1, f.state.Read().Now())
	put(tx)
	tx.Commit()
}

func (f fixture) upsert(q *api.QuotaSpec) error {
	_, err := f.Upsert(f.t.Context(), &api.QuotaUpsertRequest{Quota: q})
	return err
}

func limited(l api.QuotaResources) *api.QuotaSpec {
	return &api.QuotaSpec{Name: "team", Limits: []*api.QuotaLimit{{Region: "global", RegionLimit: &l}}}
}

func TestWhatNothingEnforcesIsRefused(t *testing.T) {
	f := open(t)
	pool := func(p api.NodePoolLimit) *api.QuotaSpec {
		return limited(api.QuotaResources{NodePools: []*api.NodePoolLimit{&p}})
	}
	for words, q := range map[string]*api.QuotaSpec{
		"missing quota specification":                                nil,
		`invalid name "no name"`:                                     {Name: "no name"},
		"description of the quota is longer":                         {Name: "q", Description: strings.Repeat("x", 257)},
		`limit of region "eu": these servers are of region "global"`: {Name: "q", Limits: []*api.QuotaLimit{{Region: "eu"}}},
		"2 limits were given":                                        {Name: "q", Limits: []*api.QuotaLimit{{}, nil}},
		"variables_limit and storage: variables are two limits": {Name: "q", Limits: []*api.QuotaLimit{{
			VariablesLimit: new(1), RegionLimit: &api.QuotaResources{Storage: &api.QuotaStorageResources{VariablesMB: 2}},
		}}},
		"region_limit: a device has no name":                        limited(api.QuotaResources{Devices: []*api.RequestedDevice{nil}}),
		`region_limit: device "gpu" is limited twice`:               limited(api.QuotaResources{Devices: []*api.RequestedDevice{{Name: "gpu"}, {Name: "gpu"}}}),
		"region_limit: numa is not enforced":                        limited(api.QuotaResources{NUMA: &api.NUMAResource{}}),
		`node_pool "gone" does not exist`:                           pool(api.NodePoolLimit{NodePool: "gone"}),
		`node_pool "all": device "gpu": a limit has no constraints`: pool(api.NodePoolLimit{NodePool: "all", Devices: []*api.RequestedDevice{{Name: "gpu", Constraints: []*api.Constraint{{}}}}}),
		`node_pool "all": storage is limited for the region only`:   pool(api.NodePoolLimit{NodePool: "all", Storage: &api.QuotaStorageResources{Volumes: 1}}),
		`node_pool "all" is limited twice`:                          limited(api.QuotaResources{NodePools: []*api.NodePoolLimit{{NodePool: "all"}, {NodePool: "all"}}}),
	} {
		if err := f.upsert(q); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: got %v", words, err)
		}
	}
}

func TestQuotaIsReadAsItWasWritten(t *testing.T) {
	f := open(t)
	q := limited(api.QuotaResources{CPU: new(100), MemoryMB: new(-1), Storage: &api.QuotaStorageResources{Volumes: 5}})
	q.Description, q.Limits[0].Region = "all of it", ""
	if err := f.upsert(q); err != nil {
		t.Fatal(err)
	}
	got, err := f.Get(t.Context(), &api.NameRequest{Name: "team"})
	if err != nil || got.Quota == nil {
		t.Fatal(got, err)
	}
	l := got.Quota.Limits[0]
	if got.Quota.Description != "all of it" || l.Region != "global" || *l.RegionLimit.CPU != 100 || *l.RegionLimit.MemoryMB != -1 || len(l.Hash) == 0 {
		t.Errorf("read %+v %+v", got.Quota, l)
	}
	if list, err := f.List(t.Context(), &api.QueryOptions{Prefix: "te"}); err != nil || len(list.Quotas) != 1 {
		t.Errorf("listed %+v, %v", list, err)
	}
}

func TestQuotaOfANamespaceIsNotDeleted(t *testing.T) {
	f := open(t)
	if err := f.upsert(&api.QuotaSpec{Name: "team"}); err != nil {
		t.Fatal(err)
	}
	remove := func() error {
		_, err := f.Delete(t.Context(), &api.NameWriteRequest{Name: "team"})
		return err
	}
	f.given(func(tx *state.Txn) { tx.PutNamespace(&api.Namespace{Name: "a", Quota: "team"}) })
	if err := remove(); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `quota "team" is used by the namespaces a`) {
		t.Errorf("got %v", err)
	}
	f.given(func(tx *state.Txn) { tx.PutNamespace(&api.Namespace{Name: "a"}) })
	if err := remove(); err != nil {
		t.Fatal(err)
	}
	if err := remove(); !errors.Is(err, fault.NotFound) {
		t.Errorf("got %v", err)
	}
}

func TestUsageIsWhatTheNamespacesHave(t *testing.T) {
	f := open(t)
	if err := f.upsert(limited(api.QuotaResources{
		CPU: new(1), Devices: []*api.RequestedDevice{{Name: "acme/gpu"}}, NodePools: []*api.NodePoolLimit{{NodePool: "all", CPU: new(1)}},
	})); err != nil {
		t.Fatal(err)
	}
	f.given(func(tx *state.Txn) {
		for ns, quota := range map[string]string{"a": "team", "b": "team", "c": ""} {
			tx.PutNamespace(&api.Namespace{Name: ns, Quota: quota})
			j := &api.Job{ID: "j", Namespace: ns, NodePool: map[string]string{"a": "all"}[ns], TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{
				{Name: "t", Resources: &api.Resources{CPU: 100, MemoryMB: 200, MemoryMaxMB: 300, SecretsMB: 4, Devices: []*api.RequestedDevice{{Name: "gpu", Count: 3}, {Name: "zeta/gpu"}}}},
				{Name: "u", Resources: &api.Resources{Cores: 2, MemoryMB: 10}},
				{Name: "init", Lifecycle: &api.TaskLifecycle{Hook: api.TaskLifecycleHookPrestart}, Resources: &api.Resources{CPU: 50}},
			}}}}
			for _, status := range []string{api.AllocClientStatusRunning, api.AllocClientStatusComplete} {
				tx.PutAlloc(&api.Allocation{ID: ns + status, Namespace: ns, JobID: "j", Job: j, TaskGroup: "g", ClientStatus: status})
			}
			tx.PutVolume(&api.Volume{VolumeSpec: api.VolumeSpec{ID: "v", Namespace: ns, RequestedCapacityMin: 5 << 20}, Provision: api.VolumeProvision{CapacityBytes: 6<<20 - 1}})
			tx.PutVariable(&api.VariableRow{VariableMeta: api.VariableMeta{Namespace: ns, Path: "p"}, Data: make([]byte, 1<<20)})
			tx.PutVariable(&api.VariableRow{VariableMeta: api.VariableMeta{Namespace: ns, Path: "q"}, Data: make([]byte, 1)})
		}
	})
	list, err := f.Usages(t.Context(), &api.QueryOptions{})
	one, err2 := f.Usage(t.Context(), &api.NameRequest{Name: "team"})
	if err != nil || err2 != nil || len(list.Usages) != 1 || one.Usage == nil {
		t.Fatal(list, one, err, err2)
	}
	for _, u := range []*api.QuotaUsage{list.Usages[0], one.Usage} {
		for _, l := range u.Used {
			r := l.RegionLimit
			if *r.CPU != 200 || *r.Cores != 4 || *r.MemoryMB != 428 || *r.MemoryMaxMB != 628 || *r.SecretsMB != 8 || r.Storage.VariablesMB != 3 || r.Storage.Volumes != 2 || r.Storage.VolumesMB != 12 || r.Devices[0].Count != 6 {
				t.Errorf("used %d MHz, %d cores, %d MB, %d MB at most, %d MB of secrets, %+v", *r.CPU, *r.Cores, *r.MemoryMB, *r.MemoryMaxMB, *r.SecretsMB, r.Storage)
			}
			if len(r.NodePools) != 1 || *r.NodePools[0].CPU != 100 || *r.NodePools[0].SecretsMB != 4 {
				t.Errorf("node pools %+v", r.NodePools)
			}
		}
		if len(u.Used) != 1 {
			t.Errorf("usage %+v", u)
		}
	}
	if missing, err := f.Usage(t.Context(), &api.NameRequest{Name: "none"}); err != nil || missing.Usage != nil {
		t.Errorf("got %+v, %v", missing, err)
	}
}
