package broker

import (
	"maps"
	"slices"
	"sync"

	"github.com/open-nomad/open-nomad/api"
)

// eventsMax bounds the remembered events; forgetting them costs spurious wake-ups.
const eventsMax = 200_000

// Fits reports whether the node may have capacity for what the evaluation could not place; false is certain.
type Fits func(e *api.Evaluation, node string) bool

// Blocked holds evaluations that wait for capacity or for something outside of nodes.
type Blocked struct {
	fits Fits

	mu    sync.Mutex
	evals map[string]*api.Evaluation
	// byJob finds the evaluation of a job, for system jobs per node.
	byJob  map[blockKey]string
	ofJob  map[jobKey]map[string]bool
	byNeed map[string]map[string]bool // resource -> evaluation ids
	byNode map[string]map[string]bool
	// free are those that any node of the right class may help.
	free map[string]bool

	// Last index of events, to be compared with the snapshot of an evaluation that comes late. Those of nodes are
	// by class; classOf finds them.
	nodes   map[string]map[string]uint64
	classOf map[string]string
	needs   map[string]uint64
	jobs    map[jobKey]uint64
	floor   uint64
}

type blockKey struct {
	job  jobKey
	node string
}

// NewBlocked makes an empty tracker; without fits all nodes have capacity. It is asked in calls of Block and
// NodeFreed only.
func NewBlocked(fits Fits) *Blocked {
	if fits == nil {
		fits = func(*api.Evaluation, string) bool { return true }
	}
	b := &Blocked{fits: fits}
	b.Reset()
	return b
}

// Reset forgets everything.
func (b *Blocked) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.evals, b.byJob, b.ofJob = map[string]*api.Evaluation{}, map[blockKey]string{}, map[jobKey]map[string]bool{}
	b.byNeed, b.byNode, b.free = map[string]map[string]bool{}, map[string]map[string]bool{}, map[string]bool{}
	b.floor = 0
	b.forgetEvents()
}

func (b *Blocked) forgetEvents() {
	b.nodes, b.classOf = map[string]map[string]uint64{}, map[string]string{}
	b.needs, b.jobs = map[string]uint64{}, map[jobKey]uint64{}
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
	file(b.ofJob, keyOf(e), e.ID)
	for _, need := range needsOf(e) {
		file(b.byNeed, need, e.ID)
	}
	if e.NodeID != "" {
		file(b.byNode, e.NodeID, e.ID)
	} else if !quotaOnly(e) {
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

// quotaOnly reports whether the evaluation waits for its quota and not for nodes: no node was full, and its plans were not
// refused.
func quotaOnly(e *api.Evaluation) bool {
	if e.TriggeredBy == api.TriggerMaxPlans {
		return false
	}
	for _, m := range e.FailedTGAllocs {
		if m == nil || len(m.QuotaExhausted) == 0 || m.NodesExhausted > 0 {
			return false
		}
	}
	return e.QuotaLimitReached != "" && e.NodeID == "" && len(e.FailedTGAllocs) > 0
}

func file[K comparable](m map[K]map[string]bool, key K, id string) {
	if m[key] == nil {
		m[key] = map[string]bool{}
	}
	m[key][id] = true
}

func unfile[K comparable](m map[K]map[string]bool, key K, id string) {
	delete(m[key], id)
	if len(m[key]) == 0 {
		delete(m, key)
	}
}

func (b *Blocked) missed(e *api.Evaluation) bool {
	since := e.SnapshotIndex
	if b.floor > since || b.jobs[keyOf(e)] > since {
		return true
	}
	for _, need := range needsOf(e) {
		if b.needs[need] > since {
			return true
		}
	}
	if quotaOnly(e) {
		return false
	}
	if e.NodeID != "" {
		return b.nodes[b.classOf[e.NodeID]][e.NodeID] > since && b.fits(e, e.NodeID)
	}
	for class, nodes := range b.nodes {
		if !helps(e, class) {
			continue
		}
		for node, index := range nodes {
			if index > since && b.fits(e, node) {
				return true
			}
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
	unfile(b.ofJob, keyOf(e), id)
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

// NodeFreed records that a node has more capacity, or is new or usable again; it returns the evaluations to run.
func (b *Blocked) NodeFreed(node, class string, index uint64) []*api.Evaluation {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noteNode(node, class, index)
	var ids []string
	for id := range b.byNode[node] {
		if b.fits(b.evals[id], node) {
			ids = append(ids, id)
		}
	}
	for id := range b.free {
		if e := b.evals[id]; helps(e, class) && b.fits(e, node) {
			ids = append(ids, id)
		}
	}
	return b.wake(ids)
}

// NodeGone records that a node was removed: evaluations that wait only for it run again.
func (b *Blocked) NodeGone(node string) []*api.Evaluation {
	b.mu.Lock()
	defer b.mu.Unlock()
	if class, known := b.classOf[node]; known {
		unfileEvent(b.nodes, class, node)
		delete(b.classOf, node)
	}
	return b.wake(slices.Collect(maps.Keys(b.byNode[node])))
}

func (b *Blocked) noteNode(node, class string, index uint64) {
	if old, known := b.classOf[node]; known && old != class {
		unfileEvent(b.nodes, old, node)
	}
	b.trim(index)
	if b.nodes[class] == nil {
		b.nodes[class] = map[string]uint64{}
	}
	b.nodes[class][node], b.classOf[node] = index, class
}

func unfileEvent(m map[string]map[string]uint64, class, node string) {
	delete(m[class], node)
	if len(m[class]) == 0 {
		delete(m, class)
	}
}

// Clear forgets the evaluations, but not what happened.
func (b *Blocked) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.evals {
		b.drop(id)
	}
}

// NeedMet records that a volume or plugin changed for the better; it returns the evaluations to run.
func (b *Blocked) NeedMet(resource string, index uint64) []*api.Evaluation {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trim(index)
	b.needs[resource] = index
	return b.wake(slices.Collect(maps.Keys(b.byNeed[resource])))
}

// JobFreed records the end of something of the job that blocked the rest; it returns the evaluations to run.
func (b *Blocked) JobFreed(ns, job string, index uint64) []*api.Evaluation {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := jobKey{ns, job}
	b.trim(index)
	b.jobs[key] = index
	return b.wake(slices.Collect(maps.Keys(b.ofJob[key])))
}

// Where returns the evaluations for which which holds, to be tried again.
func (b *Blocked) Where(which func(*api.Evaluation) bool) []*api.Evaluation {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	for id, e := range b.evals {
		if which(e) {
			ids = append(ids, id)
		}
	}
	return b.wake(ids)
}

// Some returns up to n waiting evaluations; they stay filed.
func (b *Blocked) Some(n int) []*api.Evaluation {
	b.mu.Lock()
	defer b.mu.Unlock()
	var some []*api.Evaluation
	for _, e := range b.evals { // in any order: each call sees others
		if len(some) == n {
			break
		}
		some = append(some, e)
	}
	return some
}

// Take returns this evaluation, to be tried again, if it is still filed.
func (b *Blocked) Take(e *api.Evaluation) []*api.Evaluation {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.evals[e.ID] != e {
		return nil
	}
	return b.wake([]string{e.ID})
}

// Superseded drops and returns what of the job was refused before the index.
func (b *Blocked) Superseded(ns, job string, index uint64) []*api.Evaluation {
	b.mu.Lock()
	defer b.mu.Unlock()
	var old []*api.Evaluation
	for id := range b.ofJob[jobKey{ns, job}] {
		if b.evals[id].SnapshotIndex < index {
			old = append(old, b.drop(id))
		}
	}
	return old
}

// OfJob returns the ids of the blocked evaluations of the job.
func (b *Blocked) OfJob(ns, job string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.ofJob[jobKey{ns, job}]))
}

// Count is how many are filed, how many of them wait whatever the class of a node is, and how many for a quota.
func (b *Blocked) Count() (all, escaped, quota int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.evals {
		if e.EscapedComputedClass {
			escaped++
		}
		if e.QuotaLimitReached != "" {
			quota++
		}
	}
	return len(b.evals), escaped, quota
}

// trim drops old events, so that one more has its place.
func (b *Blocked) trim(index uint64) {
	if len(b.classOf)+len(b.needs)+len(b.jobs) >= eventsMax {
		b.forgetEvents()
		b.floor = index
	}
}

// wake drops the evaluations and returns them as pending ones.
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
