package operator

import (
	"context"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// GetConfig is "nomad operator scheduler get-config".
func GetConfig(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show the scheduling configuration", Format: true,
		Run: func(ctx context.Context, s *session.Session) error {
			out, err := s.SchedulerConfig(ctx)
			if err != nil {
				return session.Failed("querying scheduler configuration", err)
			}
			if s.Formatted() {
				return s.Document(out)
			}
			c := out.SchedulerConfig
			if c == nil {
				return fault.New(fault.NotFound, "the cluster has no scheduler configuration yet")
			}
			s.Print(view.Pairs(
				[2]string{"Scheduler Algorithm", string(c.SchedulerAlgorithm)},
				[2]string{"Memory Oversubscription", strconv.FormatBool(c.MemoryOversubscriptionEnabled)},
				[2]string{"Reject Job Registration", strconv.FormatBool(c.RejectJobRegistration)},
				[2]string{"Pause Eval Broker", strconv.FormatBool(c.PauseEvalBroker)},
				[2]string{"Preemption System Scheduler", strconv.FormatBool(c.PreemptionConfig.SystemSchedulerEnabled)},
				[2]string{"Preemption Service Scheduler", strconv.FormatBool(c.PreemptionConfig.ServiceSchedulerEnabled)},
				[2]string{"Preemption Batch Scheduler", strconv.FormatBool(c.PreemptionConfig.BatchSchedulerEnabled)},
				[2]string{"Preemption SysBatch Scheduler", strconv.FormatBool(c.PreemptionConfig.SysBatchSchedulerEnabled)},
				[2]string{"Node Limit For Feasibility Checks", strconv.FormatUint(uint64(c.NodeLimitForFeasibilityChecks), 10)},
				[2]string{"Modify Index", strconv.FormatUint(c.ModifyIndex, 10)}))
			return nil
		},
	}.Command()
}

// switches are the parts of the configuration that are on or off.
var switches = []struct {
	flag, usage string
	field       func(*api.SchedulerConfiguration) *bool
}{
	{"memory-oversubscription", "let tasks use more memory than they reserve", func(c *api.SchedulerConfiguration) *bool { return &c.MemoryOversubscriptionEnabled }},
	{"reject-job-registration", "refuse new jobs", func(c *api.SchedulerConfiguration) *bool { return &c.RejectJobRegistration }},
	{"pause-eval-broker", "schedule nothing", func(c *api.SchedulerConfiguration) *bool { return &c.PauseEvalBroker }},
	{"preempt-system-scheduler", "system jobs evict lower ones", func(c *api.SchedulerConfiguration) *bool { return &c.PreemptionConfig.SystemSchedulerEnabled }},
	{"preempt-service-scheduler", "service jobs evict lower ones", func(c *api.SchedulerConfiguration) *bool { return &c.PreemptionConfig.ServiceSchedulerEnabled }},
	{"preempt-batch-scheduler", "batch jobs evict lower ones", func(c *api.SchedulerConfiguration) *bool { return &c.PreemptionConfig.BatchSchedulerEnabled }},
	{"preempt-sysbatch-scheduler", "sysbatch jobs evict lower ones", func(c *api.SchedulerConfiguration) *bool { return &c.PreemptionConfig.SysBatchSchedulerEnabled }},
}

// SetConfig is "nomad operator scheduler set-config".
func SetConfig(name string) *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "scheduler-algorithm", Usage: "`binpack` or spread"},
		&cli.StringFlag{Name: "node-limit-for-feasibility-checks", Usage: "`number` of nodes that are evaluated for jobs with affinities or spreads"},
		&cli.StringFlag{Name: "check-index", Usage: "change it only if its modify index is `index`"},
	}
	for _, x := range switches {
		flags = append(flags, &cli.StringFlag{Name: x.flag, Usage: x.usage + ": `true` or false"})
	}
	return session.Verb{Name: name, Usage: "change the scheduling configuration", Flags: flags, Run: setConfig}.Command()
}

func setConfig(ctx context.Context, s *session.Session) error {
	out, err := s.SchedulerConfig(ctx)
	if err != nil {
		return session.Failed("querying scheduler configuration", err)
	}
	c := out.SchedulerConfig
	if c == nil {
		c = &api.SchedulerConfiguration{}
	}
	if s.IsSet("scheduler-algorithm") {
		c.SchedulerAlgorithm = api.SchedulerAlgorithm(s.String("scheduler-algorithm"))
		if c.SchedulerAlgorithm != api.SchedulerAlgorithmBinpack && c.SchedulerAlgorithm != api.SchedulerAlgorithmSpread {
			return fault.New(fault.Invalid, "-scheduler-algorithm %q is neither binpack nor spread", c.SchedulerAlgorithm)
		}
	}
	if s.IsSet("node-limit-for-feasibility-checks") {
		text := s.String("node-limit-for-feasibility-checks")
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return fault.New(fault.Invalid, "-node-limit-for-feasibility-checks %q is not a number", text)
		}
		c.NodeLimitForFeasibilityChecks = uint(n)
	}
	for _, x := range switches {
		if !s.IsSet(x.flag) {
			continue
		}
		b, err := strconv.ParseBool(s.String(x.flag))
		if err != nil {
			return fault.New(fault.Invalid, "-%s %q is neither true nor false", x.flag, s.String(x.flag))
		}
		*x.field(c) = b
	}
	cas := &c.ModifyIndex
	if s.IsSet("check-index") {
		n, err := strconv.ParseUint(s.String("check-index"), 10, 64)
		if err != nil {
			return fault.New(fault.Invalid, "-check-index %q is not an index", s.String("check-index"))
		}
		cas = &n
	}
	done, err := s.SetSchedulerConfig(ctx, c, cas)
	if err != nil {
		return session.Failed("setting scheduler configuration", err)
	}
	if !done.Updated {
		return fault.New(fault.Conflict, "the scheduler configuration changed in the meantime: check it and try again")
	}
	s.Println("Scheduler configuration updated!")
	return nil
}
