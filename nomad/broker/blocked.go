package broker

import (
	"slices"
	"sync"

	"github.com/open-nomad/open-nomad/api"
)

// eventsMax bounds the remembered events; forgetting them costs spurious wake-ups.
const eventsMax = 50_000

// Blocked holds evaluations that wait for capacity or for something outside of nodes.
type Blocked struct {
	mu    sync.Mutex
	evals map[string]*api.Evaluation
	// byJob finds the evaluation of a job, for system jobs per node.
	byJob  map[blockKey]string
	ofJob  map[string]map[string]bool
	byNeed map[string]map[string]bool // resource -> evaluation ids
	byNode map[string]map[string]bool
	// free are those that any node of the right class may help.
	free map[string]bool

	// Last index of events, to be compared with the snapshot of an evaluation that comes late.
	classes, nodes, needs map[string]uint64
	floor                 uint64
}

type blockKey struct {
	job  jobKey
	node string
}

// NewBlocked makes an empty tracker.
func NewBlocked() *Blocked {
	return &Blocked{
		evals: map[string]*api.Evaluation{}, byJob: map[blockKey]string{},
		ofJob:  map[string]map[string]bool{},
		byNeed: map[string]map[string]bool{}, byNode: map[string]map[string]bool{}, free: map[string]bool{},
		classes: map[string]uint64{}, nodes: map[string]uint64{}, needs: map[string]uint64{},
	}
}

// Block files an evaluation. missed reports that what it waits for happened after its snapshot: it is not
// filed and should run now. duplicate is an older or newer one of the same job that is superfluous.
func (b *Blocked) Block(e *api.Evaluation) (missed bool, duplicate *api.Evaluation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(e.ID)
	key := blockKey{keyOf(e), e.NodeID}
	if old := b.evals[b.byJob[key]]; old != nil {
		if old.CreateIndex > e.CreateIndex {
			return false, e
		}
		b.drop(old.ID)
		duplicate = old
	}
	if b.missed(e) {
		return true, duplicate
	}
	b.evals[e.ID], b.byJob[key] = e, e.ID
	file(b.ofJob, jobName(e.Namespace, e.JobID), e.ID)
	for _, need := range needsOf(e) {
		file(b.byNeed, need, e.ID)
	}
	if e.NodeID != "" {
		file(b.byNode, e.NodeID, e.ID)
	} else {
		b.free[e.ID] = true
	}
	return false, duplicate
}

// QuotaResource names a quota among what is missing.
func QuotaResource(name string) string { return "quota:" + name }

// needsOf is what outside of nodes would help the evaluation.
func needsOf(e *api.Evaluation) []string {
	if e.QuotaLimitReached == "" {
		return e.MissingNonNodeResources
	}
	return append(slices.Clip(e.MissingNonNodeResources), QuotaResource(e.QuotaLimitReached))
}

func jobName(ns, id string) string { return ns + "\x00" + id }

func file(m map[string]map[string]bool, key, id string) {
	if m[key] == nil {
		m[key] = map[string]bool{}
	}
	m[key][id] = true
}

func unfile(m map[string]map[string]bool, key, id string) {
	delete(m[key], id)
	if len(m[key]) == 0 {
		delete(m, key)
	}
}

func (b *Blocked) missed(e *api.Evaluation) bool {
	if b.floor > e.SnapshotIndex {
		return true
	}
	for _, need := range needsOf(e) {
		if b.needs[need] > e.SnapshotIndex {
			return true
		}
	}
	if e.NodeID != "" {
		return b.nodes[e.NodeID] > e.SnapshotIndex
	}
	for class, index := range b.classes {
		if index > e.SnapshotIndex && helps(e, class) {
			return true
		}
	}
	return false
}

// helps reports whether a node of the class may run what the evaluation could not place.
func helps(e *api.Evaluation, class string) bool {
	if e.EscapedComputedClass || class == "" {
		return true
	}
	eligible, asked := e.ClassEligibility[class]
	return eligible || !asked
}

func (b *Blocked) drop(id string) *api.Evaluation {
	e := b.evals[id]
	if e == nil {
		return nil
	}
	delete(b.evals, id)
	delete(b.free, id)
	unfile(b.ofJob, jobName(e.Namespace, e.JobID), id)
	if key := (blockKey{keyOf(e), e.NodeID}); b.byJob[key] == id {
		delete(b.byJob, key)
	}
	for _, need := range needsOf(e) {
		unfile(b.byNeed, need, id)
	}
	if e.NodeID != "" {
		unfile(b.byNode, e.NodeID, id)
	}
	return e
}

// Forget drops an evaluation that was finished elsewhere.
func (b *Blocked) Forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(id)
}

// NodeFreed tells that a node has more room, or is new or usable again; it answers who should run. Those
// that enough, when it is not nil, says no about stay: all the node's room would not do for them.
func (b *Blocked) NodeFreed(node, class string, index uint64, enough func(*api.Evaluation) bool) []*api.Evaluation {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes[node], b.classes[class] = index, index
	b.trim(index)
	var ids []string
	for id := range b.byNode[node] {
		if enough == nil || enough(b.evals[id]) {
			ids = append(ids, id)
		}
	}
	for id := range b.free {
		if e := b.evals[id]; helps(e, class) && (enough == nil || enough(e)) {
			ids = append(ids, id)
		}
	}
	return b.wake(ids)
}

// Clear forgets the evaluations, but not what happened.
func (b *Blocked) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.evals {
		b.drop(id)
	}
}

// NeedMet tells that a volume or plugin changed for the better; it answers who should run.
func (b *Blocked) NeedMet(resource string, index uint64) []*api.Evaluation {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.needs[resource] = index
	b.trim(index)
	var ids []string
	for id := range b.byNeed[resource] {
		ids = append(ids, id)
	}
	return b.wake(ids)
}

// Triggered answers those that were blocked for this reason, to be tried again.
func (b *Blocked) Triggered(by string) []*api.Evaluation {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	for id, e := range b.evals {
		if e.TriggeredBy == by {
			ids = append(ids, id)
		}
	}
	return b.wake(ids)
}

// Superseded drops and answers what the job has blocked from before the index.
func (b *Blocked) Superseded(ns, job string, index uint64) []*api.Evaluation {
	b.mu.Lock()
	defer b.mu.Unlock()
	var old []*api.Evaluation
	for id := range b.ofJob[jobName(ns, job)] {
		if b.evals[id].CreateIndex < index {
			old = append(old, b.drop(id))
		}
	}
	return old
}

// Len is the number of blocked evaluations.
func (b *Blocked) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.evals)
}

func (b *Blocked) trim(index uint64) {
	if len(b.nodes)+len(b.needs)+len(b.classes) > eventsMax {
		clear(b.nodes)
		clear(b.needs)
		clear(b.classes)
		b.floor = index
	}
}

// wake drops the evaluations and answers them as pending ones.
func (b *Blocked) wake(ids []string) []*api.Evaluation {
	var woken []*api.Evaluation
	for _, id := range ids {
		if e := b.drop(id); e != nil {
			next := *e
			next.Status = api.EvalStatusPending
			woken = append(woken, &next)
		}
	}
	return woken
}
