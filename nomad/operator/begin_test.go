package operator_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/operator"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func TestConfigurationOfANewClusterIsWrittenOnceAndNotOverOthers(t *testing.T) {
	t.Parallel()
	s := state.New()
	begin := operator.Begin{Scheduler: &api.SchedulerConfiguration{SchedulerAlgorithm: api.SchedulerAlgorithmSpread}, Autopilot: api.DefaultAutopilot()}
	r := operator.New(operator.Config{State: s, Raft: single{fsm.NewLocal(s, registry())}, Begin: begin})
	for range 2 {
		if err := r.Establish(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tx := s.Read()
	if c := tx.SchedulerConfig(); c.SchedulerAlgorithm != api.SchedulerAlgorithmSpread || c.PreemptionConfig.SystemSchedulerEnabled || tx.Index() != c.ModifyIndex {
		t.Errorf("the cluster begins with %+v at %d", c, tx.Index())
	}
	if tx.AutopilotConfig().ModifyIndex != 0 {
		t.Error("the default was written")
	}
	w := s.Write(s.Read().Index()+1, time.Now())
	w.PutSchedulerConfig(&api.SchedulerConfiguration{SchedulerAlgorithm: api.SchedulerAlgorithmBinpack})
	w.Commit()
	if err := r.Establish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := s.Read().SchedulerConfig(); c.SchedulerAlgorithm != api.SchedulerAlgorithmBinpack {
		t.Errorf("what an operator set was replaced by %+v", c)
	}
}
