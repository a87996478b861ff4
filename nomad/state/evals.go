package state

import (
	"iter"

	"github.com/open-nomad/open-nomad/api"
)

// EvalKey is one evaluation's row.
func EvalKey(id string) Key { return Key{TableEvals, "id", id} }

// JobEvalsKey is all evaluations of a job.
func JobEvalsKey(ns, job string) Key { return Key{TableEvals, "job", rowKey(ns, job)} }

// Eval returns the evaluation, or nil.
func (t *Txn) Eval(id string) *api.Evaluation { return evals.get(t, id) }

// Evals lists the evaluations of a namespace by id.
func (t *Txn) Evals(ns string) iter.Seq[*api.Evaluation] {
	return filter(evals.all(t), func(e *api.Evaluation) bool {
		return ns == api.AllNamespaces || e.Namespace == ns
	})
}

// EvalsByJob lists the evaluations of a job.
func (t *Txn) EvalsByJob(ns, job string) iter.Seq[*api.Evaluation] {
	return evals.list(t, "job", rowKey(ns, job))
}

// PutEval stores the evaluation.
func (t *Txn) PutEval(e *api.Evaluation) {
	evals.put(t, e)
	t.summarizeEval(e)
}

// DeleteEval deletes the evaluation and reports whether there was one.
func (t *Txn) DeleteEval(id string) bool { return evals.remove(t, t.Eval(id)) }
