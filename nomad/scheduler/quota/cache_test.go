package quota_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/quota"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func group(cpu int) *api.Job {
	return &api.Job{ID: "j", TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{{Name: "t", Resources: &api.Resources{CPU: cpu}}}}}}
}

// The cache gives what counting again gives, whatever changes in between.
func TestCachedUsageIsThatOfTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, cache := state.New(), quota.Cache{}
		names := rapid.SampledFrom([]string{"", "q1", "q2"})
		space := rapid.SampledFrom([]string{"a", "b", "c"})
		for step := range rapid.IntRange(1, 30).Draw(t, "steps") {
			ns := space.Draw(t, "namespace")
			write := func(fn func(tx *state.Txn)) {
				tx := s.Write(s.Read().Index()+1, time.Unix(1, 0))
				fn(tx)
				tx.Commit()
			}
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				cpu := rapid.SampledFrom([]int{0, -1, 50, 500}).Draw(t, "limit")
				write(func(tx *state.Txn) {
					tx.PutQuota(&api.QuotaSpec{Name: "q1", Limits: []*api.QuotaLimit{{RegionLimit: &api.QuotaResources{CPU: &cpu}}}})
					tx.PutQuota(&api.QuotaSpec{Name: "q2", Limits: []*api.QuotaLimit{{RegionLimit: &api.QuotaResources{CPU: new(100)}}}})
				})
			case 1:
				q := names.Draw(t, "quota")
				write(func(tx *state.Txn) { tx.PutNamespace(&api.Namespace{Name: ns, Quota: q}) })
			case 2:
				a := &api.Allocation{ID: fmt.Sprint(step), Namespace: ns, JobID: "j", TaskGroup: "g", Job: group(10 * step)}
				write(func(tx *state.Txn) { tx.PutAlloc(a) })
			case 3:
				write(func(tx *state.Txn) {
					for a := range s.Read().Allocs(ns) {
						ended := *a
						ended.ClientStatus = api.AllocClientStatusComplete
						tx.PutAlloc(&ended)
						break
					}
				})
			case 4: // an evaluation changes nothing that counts
				write(func(tx *state.Txn) { tx.PutEval(&api.Evaluation{ID: fmt.Sprint(step), Namespace: ns}) })
			}
			tx := s.Read()
			cache.At(tx.Line(), tx.TableIndex(state.TableAllocs, state.TableNamespaces, state.TableQuotas))
			for range 2 {
				got, want := cache.Open(tx, ns), quota.Open(tx, ns)
				if (got == nil) != (want == nil) || got != nil && (got.Name != want.Name || !reflect.DeepEqual(got.Used(""), want.Used(""))) {
					t.Fatalf("namespace %s: got %+v, want %+v", ns, got, want)
				}
				got.Take("default", quota.Amount{CPU: 7}, 1) // what a plan takes is not kept
			}
		}
	})
}
