package variables_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/scheduler/quota"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/variables"
)

// limit gives the namespaces one quota with a limit of variables in MB.
func (f *fixture) limit(mb int) *api.QuotaSpec {
	q := &api.QuotaSpec{Name: "team", Limits: []*api.QuotaLimit{{RegionLimit: &api.QuotaResources{Storage: &api.QuotaStorageResources{VariablesMB: mb}}}}}
	f.given(func(tx *state.Txn) {
		tx.PutQuota(q)
		for _, name := range []string{"default", "other"} {
			tx.PutNamespace(&api.Namespace{Name: name, Quota: q.Name})
		}
	})
	return q
}

// sized has items whose encryption has the number of bytes.
func sized(bytes int) map[string]string { return items(strings.Repeat("x", bytes-36)) }

func TestQuotaLimitsVariablesOfItsNamespaces(t *testing.T) {
	f := open(t)
	refused := func(r api.VariableApplyRequest, words string) {
		t.Helper()
		if _, err := f.apply(r); !errors.Is(err, fault.Exhausted) || !strings.Contains(err.Error(), words) {
			t.Fatalf("%s of %s: got %v, want %q", r.Op, r.Path, err, words)
		}
	}
	at := func(namespace, path string, bytes int) api.VariableApplyRequest {
		return api.VariableApplyRequest{WriteRequest: api.WriteRequest{Namespace: namespace}, Path: path, Items: sized(bytes)}
	}
	q := f.limit(1)
	for i := range 16 {
		f.done(at("other", fmt.Sprint(i), 1<<16))
	}
	if used := quota.VariablesOf(f.state.Read(), q); used != 1<<20 {
		t.Fatalf("%d bytes are in use", used)
	}
	refused(at("default", "p", 100), `variable "p": quota limit hit: team: variables exhausted (1048576 bytes in use, 100 more asked, limit 1 MB): delete variables`)
	f.done(at("other", "0", 1<<16)) // as large as before
	f.done(at("other", "0", 1<<16-100))
	refused(at("default", "p", 101), "(1048476 bytes in use, 101 more asked")
	f.done(at("default", "p", 100))
	refused(at("default", "p", 101), "1 more asked")

	lock := at("default", "p", 101)
	lock.Op = api.VariableAcquire
	refused(lock, "1 more asked")
	lock.Items = nil
	held := f.done(lock)
	f.done(api.VariableApplyRequest{Op: api.VariableRelease, Path: "p", Lock: held.Meta.Lock})
	f.done(api.VariableApplyRequest{Op: api.VariableAcquire, Path: "new"})
	refused(api.VariableApplyRequest{Op: api.VariableCAS, Path: "cas", Items: items("")}, "variables exhausted")
	f.conflict(api.VariableApplyRequest{Op: api.VariableCAS, Path: "cas", CheckIndex: 7, Items: items("")})

	f.limit(-1) // less than is in use
	f.done(at("default", "p", 99))
	refused(at("default", "p", 100), "limit 0 MB")
	f.done(api.VariableApplyRequest{Op: api.VariableDelete, Path: "p"})
	refused(at("default", "p", 99), "limit 0 MB")
	f.limit(0)
	f.done(at("default", "p", 1<<16))
	f.given(func(tx *state.Txn) {
		tx.PutQuota(&api.QuotaSpec{Name: q.Name, Limits: []*api.QuotaLimit{{VariablesLimit: new(1)}}})
	})
	refused(at("default", "q", 99), "limit 1 MB")
}

// together proposes nothing before all requests are ready to.
type together struct {
	fsm.Leader
	ready sync.WaitGroup
}

func (l *together) Propose(ctx context.Context, cmd fsm.Command) (fsm.Result, error) {
	l.ready.Done()
	l.ready.Wait()
	return l.Leader.Propose(ctx, cmd)
}

// Writes that are checked at the same time do not pass the limit together: the command compares, not the request.
func TestRacingWritesStayWithinTheQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a request that never proposes fails the test at once
		f := open(t)
		q, raft := f.limit(1), &together{Leader: f.raft}
		s := variables.New(variables.Config{State: f.state, Raft: raft, Keys: f.keys})
		raft.ready.Add(40)
		var written atomic.Int64
		var group sync.WaitGroup
		for i := range 40 {
			group.Go(func() {
				_, err := s.Apply(t.Context(), &api.VariableApplyRequest{Op: api.VariableSet, Path: fmt.Sprint(i), Items: sized(1 << 16)})
				if err == nil {
					written.Add(1)
				} else if !errors.Is(err, fault.Exhausted) {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if used := quota.VariablesOf(f.state.Read(), q); written.Load() != 16 || used != 1<<20 {
			t.Errorf("%d writes passed, %d bytes are in use", written.Load(), used)
		}
	})
}
