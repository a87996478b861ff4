package jobs

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/allocs/row"
	"github.com/open-nomad/open-nomad/nomad/jobs/diff"
	"github.com/open-nomad/open-nomad/nomad/jobs/ledger"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// keysOf are what a job's derived status depends on.
func keysOf(ns, id string) []state.Key {
	return []state.Key{
		state.JobKey(ns, id), state.JobAllocsKey(ns, id), state.JobEvalsKey(ns, id), state.JobDeploymentsKey(ns, id),
	}
}

// status derives the status of a job from what belongs to it.
func status(tx *state.Txn, j *api.Job) string {
	return rules.Status(j, tx.AllocsByJob(j.Namespace, j.ID), tx.EvalsByJob(j.Namespace, j.ID), tx.DeploymentsByJob(j.Namespace, j.ID))
}

func withStatus(tx *state.Txn, j *api.Job) *api.Job {
	if j == nil {
		return nil
	}
	shown := *j
	shown.Status = status(tx, j)
	return &shown
}

// List lists jobs by namespace and id.
func (s *Service) List(ctx context.Context, r *api.JobListRequest) (*api.JobListResponse, error) {
	out := &api.JobListResponse{}
	keys := []state.Key{state.TableKey(state.TableJobs), state.TableKey(state.TableSummaries), state.TableKey(state.TableEvals), state.TableKey(state.TableDeployments)}
	var err error
	out.Jobs, err = page.Read(ctx, s.State, &r.QueryOptions, &out.QueryMeta, keys, func(tx *state.Txn) page.List[*api.Job, *api.JobStub] {
		return page.List[*api.Job, *api.JobStub]{
			Walk:  tx.JobSpan,
			Token: func(j *api.Job) string { return state.PathToken(j.Namespace, j.ID) },
			Keep:  func(j *api.Job) bool { return r.NodePool == "" || r.NodePool == j.NodePool },
			View:  func(j *api.Job) any { return withStatus(tx, j) },
			Row:   func(j *api.Job) *api.JobStub { return jobRow(tx, j) },
		}
	})
	return out, err
}

func jobRow(tx *state.Txn, j *api.Job) *api.JobStub {
	return &api.JobStub{
		ID: j.ID, ParentID: j.ParentID, Name: j.Name, Namespace: j.Namespace, Datacenters: j.Datacenters, NodePool: j.NodePool,
		Type: j.Type, Priority: j.Priority, Periodic: j.Periodic != nil, ParameterizedJob: j.ParameterizedJob != nil,
		Stop: j.Stop, Status: status(tx, j), StatusDescription: j.StatusDescription, JobSummary: summary(tx, j.Namespace, j.ID),
		CreateIndex: j.CreateIndex, ModifyIndex: j.ModifyIndex, JobModifyIndex: j.JobModifyIndex, SubmitTime: j.SubmitTime, Meta: j.Meta,
	}
}

// summary counts the allocations of a job, and its instances by their status.
func summary(tx *state.Txn, ns, id string) *api.JobSummary {
	stored := tx.JobSummary(ns, id)
	if stored == nil {
		return nil
	}
	shown := *stored
	shown.Children = &api.JobChildrenSummary{}
	for j := range tx.JobsByParent(ns, id) {
		switch status(tx, j) {
		case api.JobStatusPending:
			shown.Children.Pending++
		case api.JobStatusRunning:
			shown.Children.Running++
		default:
			shown.Children.Dead++
		}
	}
	return &shown
}

// Get reads one job.
func (s *Service) Get(ctx context.Context, r *api.JobRequest) (*api.JobGetResponse, error) {
	out := &api.JobGetResponse{}
	ns := namespace(r.Namespace)
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, keysOf(ns, r.JobID), func(tx *state.Txn) error {
		out.Job = withStatus(tx, tx.Job(ns, r.JobID))
		return nil
	})
	return out, err
}

// Versions lists the versions of a job, newest first.
func (s *Service) Versions(ctx context.Context, r *api.JobVersionsRequest) (*api.JobVersionsResponse, error) {
	out := &api.JobVersionsResponse{}
	ns := namespace(r.Namespace)
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, keysOf(ns, r.JobID), func(tx *state.Txn) error {
		out.Versions, out.Diffs = nil, nil
		for _, v := range tx.JobVersions(ns, r.JobID) {
			out.Versions = append(out.Versions, withStatus(tx, v))
		}
		base, err := compared(tx, ns, r)
		for i := 0; base == nil && r.Diffs && i+1 < len(out.Versions); i++ {
			out.Diffs = append(out.Diffs, diff.Jobs(out.Versions[i+1], out.Versions[i]))
		}
		for i := 0; base != nil && i < len(out.Versions); i++ {
			out.Diffs = append(out.Diffs, diff.Jobs(base, out.Versions[i]))
		}
		return err
	})
	return out, err
}

// compared is the version that all others are to be compared with; nil for the one before each.
func compared(tx *state.Txn, ns string, r *api.JobVersionsRequest) (*api.Job, error) {
	var v *api.Job
	switch j := tx.Job(ns, r.JobID); {
	case j == nil:
	case r.DiffTag != "":
		if v = tagged(tx, j, r.DiffTag); v == nil {
			return nil, fault.New(fault.NotFound, "job %q has no version with the tag %q", r.JobID, r.DiffTag)
		}
	case r.DiffVersion != nil:
		if v = tx.JobVersion(ns, r.JobID, *r.DiffVersion); v == nil {
			return nil, ledger.MissingVersion(ns, r.JobID, *r.DiffVersion)
		}
	}
	return v, nil
}

// Submission reads the source text of a job version.
func (s *Service) Submission(ctx context.Context, r *api.JobRequest) (*api.JobSubmissionResponse, error) {
	out := &api.JobSubmissionResponse{}
	ns := namespace(r.Namespace)
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, keysOf(ns, r.JobID), func(tx *state.Txn) error {
		out.Submission, out.JobModifyIndex = tx.JobSubmission(ns, r.JobID, r.Version), 0
		if v := tx.JobVersion(ns, r.JobID, r.Version); v != nil {
			out.JobModifyIndex = v.JobModifyIndex
		}
		return nil
	})
	return out, err
}

// Summary counts a job's allocations.
func (s *Service) Summary(ctx context.Context, r *api.JobRequest) (*api.JobSummaryResponse, error) {
	out := &api.JobSummaryResponse{}
	ns := namespace(r.Namespace)
	keys := []state.Key{state.JobSummaryKey(ns, r.JobID), state.JobChildrenKey(ns, r.JobID)}
	if j := s.State.Read().Job(ns, r.JobID); j != nil && ledger.Parent(j) {
		keys = append(keys, state.TableKey(state.TableSummaries), state.TableKey(state.TableEvals))
	}
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, keys, func(tx *state.Txn) error {
		out.JobSummary = summary(tx, ns, r.JobID)
		return nil
	})
	return out, err
}

// Allocations lists a job's allocations; without All only those of its present incarnation.
func (s *Service) Allocations(ctx context.Context, r *api.JobRequest) (*api.AllocListResponse, error) {
	out := &api.AllocListResponse{}
	ns := namespace(r.Namespace)
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, []state.Key{state.JobAllocsKey(ns, r.JobID)}, func(tx *state.Txn) error {
		out.Allocs = []*api.AllocStub{}
		j := tx.Job(ns, r.JobID)
		for a := range tx.AllocsByJob(ns, r.JobID) {
			if r.All || j == nil || a.Job == nil || a.Job.CreateIndex == j.CreateIndex {
				out.Allocs = append(out.Allocs, row.Of(a))
			}
		}
		return nil
	})
	return out, err
}

// Evaluations lists a job's evaluations.
func (s *Service) Evaluations(ctx context.Context, r *api.JobRequest) (*api.EvalListResponse, error) {
	out := &api.EvalListResponse{}
	ns := namespace(r.Namespace)
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, []state.Key{state.JobEvalsKey(ns, r.JobID)}, func(tx *state.Txn) error {
		out.Evaluations = []*api.Evaluation{}
		for e := range tx.EvalsByJob(ns, r.JobID) {
			out.Evaluations = append(out.Evaluations, e)
		}
		return nil
	})
	return out, err
}
