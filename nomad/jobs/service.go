package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/tracing"
	"github.com/open-nomad/open-nomad/jobspec/bounds"
	"github.com/open-nomad/open-nomad/jobspec/cron"
	"github.com/open-nomad/open-nomad/jobspec/defaults"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/jobs/diff"
	"github.com/open-nomad/open-nomad/nomad/jobs/ledger"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Preview is what scheduling a job would do.
type Preview struct {
	Annotations *api.PlanAnnotations
	Failed      map[string]*api.AllocationMetric
	// Created are the evaluations that would follow.
	Created []*api.Evaluation
}

// Config is what the service needs.
type Config struct {
	Log    hclog.Logger
	State  *state.Store
	Raft   fsm.Proposer
	Limits rules.Limits
	// Versions is how many versions of a job are kept.
	Versions int
	// Preview runs the scheduler on a snapshot for a job that is not stored.
	Preview func(tx *state.Txn, job *api.Job) *Preview
}

// Service serves the RPC methods of this package.
type Service struct {
	Config
}

// New makes the service.
func New(c Config) *Service {
	if c.Limits == (rules.Limits{}) {
		c.Limits = rules.Default()
	}
	if c.Versions == 0 {
		c.Versions = 6
	}
	return &Service{c}
}

// Handlers binds the RPC methods of the service.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{
		wire.JobRegister.Handle(s.Register),
		wire.JobValidate.Handle(s.Validate),
		wire.JobPlan.Handle(s.Plan),
		wire.JobDeregister.Handle(s.Deregister),
		wire.JobEvaluate.Handle(s.Evaluate),
		wire.JobList.Handle(s.List),
		wire.JobStatuses.Handle(s.Statuses),
		wire.JobGet.Handle(s.Get),
		wire.JobVersions.Handle(s.Versions),
		wire.JobSubmission.Handle(s.Submission),
		wire.JobSummary.Handle(s.Summary),
		wire.JobAllocations.Handle(s.Allocations),
		wire.JobEvaluations.Handle(s.Evaluations),
		wire.JobRevert.Handle(s.Revert),
		wire.JobStable.Handle(s.Stable),
		wire.JobTag.Handle(s.Tag),
		wire.JobScale.Handle(s.Scale),
		wire.JobScaleStatus.Handle(s.ScaleStatus),
		wire.ScalingPolicyList.Handle(s.Policies),
		wire.ScalingPolicyGet.Handle(s.Policy),
		wire.JobDispatch.Handle(s.Dispatch),
		wire.JobPeriodicForce.Handle(s.PeriodicForce),
	}
}

// prepare completes a job as it is stored and checks it.
func (s *Service) prepare(in *api.Job, namespace string) (*api.Job, error) {
	if in == nil {
		return nil, fault.New(fault.Invalid, "no job was given")
	}
	j := *in
	if err := gaps(&j); err != nil {
		return nil, err
	}
	if namespace != "" {
		j.Namespace = namespace
	}
	defaults.Canonicalize(&j)
	if n := s.State.Read().Namespace(j.Namespace); j.NodePool == "" && n != nil && n.NodePoolConfiguration != nil {
		j.NodePool = n.NodePoolConfiguration.Default
	}
	rules.Complete(&j)
	j.ParentID = "" // the identities of a job name its parent
	if old := s.State.Read().Job(j.Namespace, j.ID); old != nil {
		j.ParentID = old.ParentID
	}
	if errs := s.check(&j); len(errs) > 0 {
		return &j, fault.Wrap(fault.Invalid, fmt.Errorf("job %q: %w", j.ID, errors.Join(errs...)))
	}
	return &j, nil
}

// check lists what is wrong with a job: the rules, what its namespace does not permit, and what only a host knows.
func (s *Service) check(j *api.Job) []error {
	errs := append(rules.Check(j, s.Limits), rules.Later(j)...)
	errs = append(errs, namespaceErrors(s.State.Read().Namespace(j.Namespace), j)...)
	if p := j.Periodic; p != nil {
		errs = append(errs, never(p, time.Now())...)
	}
	return errs
}

// never lists why a periodic job would never be launched.
func never(p *api.PeriodicConfig, now time.Time) (errs []error) {
	zone, err := time.LoadLocation(p.TimeZone)
	if err != nil {
		return []error{fmt.Errorf("periodic time_zone %q is not known", p.TimeZone)}
	}
	for _, c := range rules.Crons(p) {
		if cron.Next(c, now.In(zone)).IsZero() && cron.Check(c) == nil {
			errs = append(errs, fmt.Errorf("periodic cron %q never fires", c))
		}
	}
	return errs
}

// gaps refuses a job whose groups or tasks are missing where they are listed, or are too many to look at.
func gaps(j *api.Job) error {
	if n := len(j.TaskGroups); n > bounds.GroupsMax {
		return fault.New(fault.Invalid, "job %q: job has %d groups, at most %d are possible", j.ID, n, bounds.GroupsMax)
	}
	for i, g := range j.TaskGroups {
		if g == nil || slices.Contains(g.Tasks, nil) {
			return fault.New(fault.Invalid, "job %q: group %d or a task of it is null", j.ID, i+1)
		}
	}
	return fault.Wrap(fault.Invalid, rules.Breadth(j))
}

// Register registers a job.
func (s *Service) Register(ctx context.Context, r *api.JobRegisterRequest) (*api.JobRegisterResponse, error) {
	j, err := s.prepare(r.Job, r.Namespace)
	if err != nil {
		return nil, err
	}
	if err := permitted(ctx, j); err != nil {
		return nil, err
	}
	if s.closed() {
		return nil, fault.New(fault.Denied, registrationOff)
	}
	if err := s.possible(r.EvalPriority); err != nil {
		return nil, err
	}
	if err := rules.Follows(s.State.Read().Job(j.Namespace, j.ID), j); err != nil {
		return nil, err
	}
	var notes []string
	if n := sourceSize(r.Submission); n > s.Limits.Source() {
		notes = append(notes, fmt.Sprintf("the source has %d bytes and is not kept: at most %d are (job_max_source_size)", n, s.Limits.Source()))
	}
	warnings := s.warnings(j, notes...)
	rules.Drop(j)
	c := &Register{
		Job: j, Submission: s.kept(r.Submission), EvalID: s.evalID(ctx), Priority: r.EvalPriority,
		CheckIndex: r.EnforceIndex, JobModifyIndex: r.JobModifyIndex,
		KeepCounts: r.PreserveCounts, KeepResources: r.PreserveResources, Versions: s.Config.Versions,
	}
	if r.PreserveCounts {
		c.CountMax = s.Limits.Counts()
	}
	res, err := s.judged(ctx, j.Namespace, j.ID, func(old *api.Job) (fsm.Command, error) {
		if !r.PreserveCounts && !r.PreserveResources {
			return c, nil
		}
		if !r.EnforceIndex {
			c.CheckIndex, c.JobModifyIndex = true, modified(old)
		}
		return c, s.worse(keeping(j, old, r.PreserveCounts, r.PreserveResources), j)
	})
	if err != nil {
		return nil, fmt.Errorf("register job %q: %w", j.ID, err)
	}
	out := reply(res)
	out.Warnings = warnings
	return out, nil
}

// kept is the source as it is stored: a large one is not.
func (s *Service) kept(source *api.JobSubmission) *api.JobSubmission {
	if sourceSize(source) > s.Limits.Source() {
		return nil
	}
	return source
}

func sourceSize(s *api.JobSubmission) int {
	if s == nil {
		return 0
	}
	n := len(s.Source) + len(s.Format) + len(s.Variables)
	for name, value := range s.VariableFlags {
		n += len(name) + len(value)
	}
	return n
}

// possible refuses a priority of an evaluation that no job can have; 0 is the job's.
func (s *Service) possible(evalPriority int) error {
	if evalPriority < 0 || evalPriority > s.Limits.PriorityMax {
		return fault.New(fault.Invalid, "Eval priority must be between 1 and %d inclusively", s.Limits.PriorityMax)
	}
	return nil
}

const registrationOff = "Job registration, dispatch, and scale are disabled by the scheduler configuration"

// closed reports whether the scheduler configuration switches off what makes new work.
func (s *Service) closed() bool { return s.State.Read().SchedulerConfig().RejectJobRegistration }

func reply(res fsm.Result) *api.JobRegisterResponse {
	out := &api.JobRegisterResponse{WriteMeta: api.WriteMeta{Index: res.Index}}
	if o, ok := res.Value.(*Outcome); ok {
		out.EvalID, out.JobModifyIndex = o.EvalID, o.JobModifyIndex
		if o.EvalID != "" {
			out.EvalCreateIndex = res.Index
		}
	}
	return out
}

// Validate checks a job.
func (s *Service) Validate(_ context.Context, r *api.JobValidateRequest) (*api.JobValidateResponse, error) {
	out := &api.JobValidateResponse{DriverConfigValidated: true}
	j, err := s.prepare(r.Job, r.Namespace)
	if j == nil {
		return nil, err
	}
	out.Warnings = s.warnings(j)
	if err == nil {
		return out, nil
	}
	out.Error = err.Error()
	for _, e := range s.check(j) {
		out.ValidationErrors = append(out.ValidationErrors, e.Error())
	}
	return out, nil
}

// warnings returns what is probably unintended about registering the job now.
func (s *Service) warnings(j *api.Job, more ...string) string {
	tx := s.State.Read()
	return rules.Warnings(j, tx.SchedulerConfig().MemoryOversubscriptionEnabled, append(pluginWarnings(tx, j), more...)...)
}

// Deregister stops or purges a job.
func (s *Service) Deregister(ctx context.Context, r *api.JobDeregisterRequest) (*api.JobRegisterResponse, error) {
	if r.JobID == "" {
		return nil, fault.New(fault.Invalid, "no job ID was given")
	}
	if err := s.possible(r.EvalPriority); err != nil {
		return nil, err
	}
	which := "deregister-job"
	if r.Purge {
		which = "purge-job"
	}
	if err := either(ctx, namespace(r.Namespace), "submit-job", which); err != nil {
		return nil, err
	}
	res, err := s.Raft.Propose(ctx, &Deregister{
		Namespace: namespace(r.Namespace), JobID: r.JobID, Purge: r.Purge, EvalID: s.evalID(ctx),
		Priority: r.EvalPriority, NoShutdownDelay: r.NoShutdownDelay, Force: r.Force,
	})
	if err != nil {
		return nil, fmt.Errorf("stop job %q: %w", r.JobID, err)
	}
	return reply(res), nil
}

// Evaluate makes a new evaluation of a job.
func (s *Service) Evaluate(ctx context.Context, r *api.JobEvaluateRequest) (*api.JobRegisterResponse, error) {
	res, err := s.Raft.Propose(ctx, &Evaluate{
		Namespace: namespace(r.Namespace), JobID: r.JobID, EvalID: s.evalID(ctx), ForceReschedule: r.EvalOptions.ForceReschedule,
	})
	if err != nil {
		return nil, fmt.Errorf("evaluate job %q: %w", r.JobID, err)
	}
	return reply(res), nil
}

// Plan returns what registering a job would change.
func (s *Service) Plan(ctx context.Context, r *api.JobPlanRequest) (*api.JobPlanResponse, error) {
	j, err := s.prepare(r.Job, r.Namespace)
	if err != nil {
		return nil, err
	}
	if err := permitted(ctx, j); err != nil {
		return nil, err
	}
	tx := s.State.Read()
	if err := ledger.Placed(tx, j); err != nil {
		return nil, err
	}
	old := tx.Job(j.Namespace, j.ID)
	if err := ledger.SameType(old, j); err != nil {
		return nil, err
	}
	if err := rules.Follows(old, j); err != nil {
		return nil, err
	}
	out := &api.JobPlanResponse{Warnings: s.warnings(j), WriteMeta: api.WriteMeta{Index: tx.Index()}}
	rules.Drop(j)
	j.JobModifyIndex = tx.Index() + 1
	if old != nil {
		out.JobModifyIndex = old.JobModifyIndex
		j.Version, j.CreateIndex = old.Version+1, old.CreateIndex
		j.TaskGroups = ledger.Policed(j, old, tx.Index()+1)
		if diff.Same(old, j) {
			j.Version, j.JobModifyIndex = old.Version, old.JobModifyIndex
		}
	}
	if r.Diff {
		out.Diff = diff.Jobs(old, j)
	}
	if p := j.Periodic; p != nil && !j.Stop {
		if zone, err := time.LoadLocation(p.TimeZone); err == nil {
			out.NextPeriodicLaunch = rules.NextLaunch(p, time.Now().In(zone))
		}
	}
	if s.Preview != nil && j.ParameterizedJob == nil {
		p := s.Preview(tx, j)
		out.Annotations, out.FailedTGAllocs = p.Annotations, p.Failed
		if j.Periodic == nil { // else it is what a launch would place; registering creates nothing
			out.CreatedEvals = p.Created
		}
	}
	if out.Diff != nil {
		diff.Annotate(out.Diff, out.Annotations, func(group, task string) bool {
			return reconcile.TaskForces(old, j, group, task)
		})
	}
	return out, nil
}

func namespace(ns string) string {
	if ns == "" {
		return api.DefaultNamespace
	}
	return ns
}

// evalID makes the id of an evaluation: that of the trace of the request, if there is one, so that everyone who has the evaluation
// finds the trace.
func (s *Service) evalID(ctx context.Context) string {
	if id := tracing.EvaluationID(ctx); id != "" && s.State.Read().Eval(id) == nil {
		return id
	}
	return uuid.NewString()
}
