package operator

import (
	"context"
	"fmt"
	"reflect"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
)

// Begin is what a new cluster begins with, nil where that is the default.
type Begin struct {
	Scheduler *api.SchedulerConfiguration
	Autopilot *api.AutopilotConfiguration
}

// Establish writes the initial configurations of a new cluster where none is stored yet. Only the leader
// calls it.
func (s *Service) Establish(ctx context.Context) error {
	tx := s.state.Read()
	var commands []fsm.Command
	if now := tx.SchedulerConfig(); now.ModifyIndex == 0 && s.begin.Scheduler != nil && !reflect.DeepEqual(now, s.begin.Scheduler) {
		c := *s.begin.Scheduler
		commands = append(commands, &SetSchedulerConfig{Config: &c, CAS: true})
	}
	if now := tx.AutopilotConfig(); now.ModifyIndex == 0 && s.begin.Autopilot != nil && !reflect.DeepEqual(now, s.begin.Autopilot) {
		c := *s.begin.Autopilot
		commands = append(commands, &SetAutopilotConfig{Config: &c, CAS: true})
	}
	for _, c := range commands {
		if _, err := s.raft.Propose(ctx, c); err != nil {
			return fmt.Errorf("write the configuration that a new cluster begins with: %w", err)
		}
	}
	return nil
}
