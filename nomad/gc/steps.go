package gc

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// reapMax is how many ids one command carries.
const reapMax = 2048

// Step is one kind of garbage. Now ignores thresholds.
type Step struct {
	Name string
	Run  func(ctx context.Context, now bool) error
}

// steps lists all kinds in their order: deleting an earlier kind allows the deletion of later ones.
func (s *Service) steps() []Step {
	return append([]Step{
		{"jobs", s.reapJobs},
		{"evaluations", s.reapEvals},
		{"deployments", s.reapDeployments},
	}, append(s.Extra, Step{"nodes", s.reapNodes})...)
}

// before is the time before which something must have ended.
func (s *Service) before(threshold time.Duration, now bool) time.Time {
	if now {
		return s.Now()
	}
	return s.Now().Add(-threshold)
}

func (s *Service) reapEvals(ctx context.Context, now bool) error {
	tx := s.State.Read()
	r := &Reap{}
	for e := range tx.Evals(api.AllNamespaces) {
		threshold := s.Limits.EvalThreshold
		if e.Type == api.JobTypeBatch || e.Type == api.JobTypeSysbatch {
			threshold = s.Limits.BatchEvalThreshold
		}
		if recordsEnd(tx, e) {
			threshold = max(threshold, s.Limits.JobThreshold)
		}
		if evalOver(tx, e, s.before(threshold, now)) {
			r.addEval(tx, e.ID)
		}
	}
	return s.reap(ctx, r)
}

func (r *Reap) addEval(tx *state.Txn, id string) {
	for a := range tx.AllocsByEval(id) {
		r.Allocs = append(r.Allocs, a.ID)
	}
	r.Evals = append(r.Evals, id)
}

func (s *Service) reapJobs(ctx context.Context, now bool) error {
	tx := s.State.Read()
	before := s.before(s.Limits.JobThreshold, now)
	r := &Reap{}
	for j := range tx.Jobs(api.AllNamespaces) {
		if j.SubmitTime <= before.UnixNano() && jobOver(tx, j) {
			r.addJob(tx, j, before.UnixNano())
		}
	}
	return s.reap(ctx, r)
}

// addJob adds the job with all its evaluations and allocations. It adds nothing when any of these still runs or has
// changed after the time.
func (r *Reap) addJob(tx *state.Txn, j *api.Job, before int64) {
	var evals, allocs []string
	for e := range tx.EvalsByJob(j.Namespace, j.ID) {
		if !e.Terminal() || e.ModifyTime > before {
			return
		}
		evals = append(evals, e.ID)
	}
	for a := range tx.AllocsByJob(j.Namespace, j.ID) {
		if !allocOver(tx, a) || a.ModifyTime > before {
			return
		}
		allocs = append(allocs, a.ID)
	}
	r.Evals, r.Allocs = append(r.Evals, evals...), append(r.Allocs, allocs...)
	r.Jobs = append(r.Jobs, JobID{j.Namespace, j.ID})
}

func (s *Service) reapDeployments(ctx context.Context, now bool) error {
	tx := s.State.Read()
	before := s.before(s.Limits.DeploymentThreshold, now)
	r := &Reap{}
	for d := range tx.Deployments(api.AllNamespaces) {
		if d.ModifyTime <= before.UnixNano() && deploymentOver(tx, d) {
			r.Deployments = append(r.Deployments, d.ID)
		}
	}
	return s.reap(ctx, r)
}

func (s *Service) reapNodes(ctx context.Context, now bool) error {
	tx := s.State.Read()
	before := s.before(s.Limits.NodeThreshold, now)
	var old []*api.Node
	together := map[string]bool{}
	for n := range tx.Nodes() {
		if n.StatusUpdatedAt <= before.Unix() && empty(tx, n) {
			old = append(old, n)
			together[n.ID] = true
		}
	}
	r := &Reap{}
	for _, n := range old {
		if nodeOver(tx, n, together) {
			r.Nodes = append(r.Nodes, n.ID)
		}
	}
	return s.reap(ctx, r)
}

func set(ids []string) map[string]bool {
	m := make(map[string]bool, len(ids))
	for _, id := range ids {
		m[id] = true
	}
	return m
}

// reap proposes the garbage in commands of bounded size. Jobs come first: what they leave has ended for certain.
func (s *Service) reap(ctx context.Context, all *Reap) error {
	for {
		part := &Reap{}
		left := reapMax
		part.Jobs, all.Jobs = cut(all.Jobs, &left)
		part.Allocs, all.Allocs = cut(all.Allocs, &left)
		part.Evals, all.Evals = cut(all.Evals, &left)
		part.Deployments, all.Deployments = cut(all.Deployments, &left)
		part.Nodes, all.Nodes = cut(all.Nodes, &left)
		if left == reapMax {
			return nil
		}
		if _, err := s.Raft.Propose(ctx, part); err != nil {
			return fmt.Errorf("forget: %w", err)
		}
	}
}

func cut[T any](list []T, left *int) (head, tail []T) {
	n := min(len(list), *left)
	*left -= n
	return list[:n], list[n:]
}
