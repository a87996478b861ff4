package login

import (
	"errors"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

func TestStatesExpireAndAreUsedOnce(t *testing.T) {
	t.Parallel()
	f, m, now := newFlows(), &api.ACLAuthMethod{Name: "m", ModifyIndex: 7}, time.Now()
	finish := func(state string, at time.Time) error {
		_, err := f.finish(m, "r", "n", state, at)
		return err
	}
	old := f.begin(m, "r", "n", now)
	if err := finish(old.State, now.Add(flowLife)); !errors.Is(err, fault.Unauthenticated) {
		t.Errorf("an expired state: %v", err)
	}
	l := f.begin(m, "r", "n", now)
	got, err := f.finish(m, "r", "n", l.State, now.Add(flowLife-time.Second))
	if err != nil || got != l {
		t.Errorf("%+v, %v, want %+v", got, err, l)
	}
	if err := finish(l.State, now.Add(flowLife-time.Second)); !errors.Is(err, fault.Unauthenticated) {
		t.Errorf("a used state: %v", err)
	}
	if err := finish(newFlows().begin(m, "r", "n", now).State, now); !errors.Is(err, fault.Unauthenticated) {
		t.Errorf("a state of another server: %v", err)
	}
}

func TestUsedStatesAreBounded(t *testing.T) {
	t.Parallel()
	f, m, now := newFlows(), &api.ACLAuthMethod{Name: "m"}, time.Now()
	for i := range usedMax + 1 {
		_, err := f.finish(m, "r", "n", f.begin(m, "r", "n", now).State, now)
		if full := i == usedMax; errors.Is(err, fault.Exhausted) != full || !full && err != nil {
			t.Fatalf("login %d: %v", i, err)
		}
	}
	later := now.Add(flowLife)
	if _, err := f.finish(m, "r", "n", f.begin(m, "r", "n", later).State, later); err != nil || len(f.used) != 1 || len(f.ends) != 1 {
		t.Errorf("after they expired: %v, %d remembered", err, len(f.used))
	}
}
