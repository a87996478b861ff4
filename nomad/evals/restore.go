package evals

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// fileMax is how many blocked evaluations are filed before changes made in the meantime are processed.
const fileMax = 512

// restore takes over everything from the state: first what is to run, then what is blocked, in portions.
func (l *leader) restore() {
	l.blocked.Reset()
	clear(l.asks)
	l.unfiled = nil
	if l.paused {
		return
	}
	tx := l.State.Read()
	l.broker.Retain(func(id string) bool {
		e := tx.Eval(id)
		return e != nil && !e.Terminal()
	})
	for e := range tx.Evals(api.AllNamespaces) {
		switch e.Status {
		case api.EvalStatusPending:
			l.broker.Enqueue(e)
		case api.EvalStatusBlocked:
			l.unfiled = append(l.unfiled, e.ID)
		}
	}
	if len(l.unfiled) > 0 {
		l.recall(tx)
	}
}

// recall reports to the tracker, in which nothing is filed yet, the last index at which each available node changed or
// an allocation ended there, as the state records it.
func (l *leader) recall(tx *state.Txn) {
	freed := map[string]uint64{}
	for n := range tx.Nodes() {
		if feasible.Available(n) {
			freed[n.ID] = n.ModifyIndex
		}
	}
	for a := range tx.Allocs(api.AllNamespaces) {
		if index, known := freed[a.NodeID]; known && a.ClientTerminal() && a.ModifyIndex > index {
			freed[a.NodeID] = a.ModifyIndex
		}
	}
	for id, index := range freed {
		l.blocked.NodeFreed(id, tx.Node(id).ComputedClass, index)
	}
}

// fileSome files some of the evaluations that were blocked when the term began. It wakes those for which something
// changed since they were blocked.
func (l *leader) fileSome() {
	n := min(fileMax, len(l.unfiled))
	tx := l.State.Read()
	for _, id := range l.unfiled[:n] {
		e := tx.Eval(id)
		switch {
		case e == nil || e.Status != api.EvalStatusBlocked:
		case placedSince(tx, e):
			l.end([]*api.Evaluation{e}, whySuperseded)
		case changedSince(tx, e):
			l.wake([]*api.Evaluation{e})
		default:
			l.block(e)
		}
	}
	l.unfiled = l.unfiled[n:]
}

// placedSince reports whether another evaluation of the job placed everything after this one was refused.
func placedSince(tx *state.Txn, e *api.Evaluation) bool {
	for other := range tx.EvalsByJob(e.Namespace, e.JobID) {
		if other.PlacedAll() && other.SnapshotIndex > e.SnapshotIndex {
			return true
		}
	}
	return false
}

// changedSince reports whether anything but the capacity of nodes changed for the evaluation since it was refused.
// What was forgotten meanwhile is not seen.
func changedSince(tx *state.Txn, e *api.Evaluation) bool {
	since := e.SnapshotIndex
	if e.NodeID != "" && tx.Node(e.NodeID) == nil {
		return true
	}
	if len(e.MissingNonNodeResources) > 0 &&
		tx.TableIndex(state.TableVolumes, state.TableClaims, state.TableAttachments, state.TableHostVolumeClaims, state.TableNodes) > since {
		return true
	}
	if e.QuotaLimitReached != "" { // when the usage of a quota fell is not stored
		return true
	}
	j := tx.Job(e.Namespace, e.JobID)
	if j == nil || !distinct(j) {
		return j == nil
	}
	for a := range tx.AllocsByJob(e.Namespace, e.JobID) {
		if a.Terminal() && a.ModifyIndex > since {
			return true
		}
		if n := tx.Node(a.NodeID); !a.Terminal() && n != nil && n.ModifyIndex > since {
			return true
		}
	}
	return false
}
