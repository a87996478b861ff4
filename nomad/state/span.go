package state

import (
	"cmp"
	"container/heap"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Span is the part of a table that a list shows. A walk over it reads the rows from the first one on, and no others, so
// the first page of a list costs the same however long the list is.
type Span struct {
	// Namespace is that of the rows, or [api.AllNamespaces]. Tables without namespaces ignore it.
	Namespace string
	// Prefix begins the ids of the rows.
	Prefix string
	// From is the token of the first row; the walk begins behind it when the row was deleted. Empty is the begin of the list.
	From    string
	Reverse bool
	// Visible reports whether the rows of a namespace are shown; nil shows all.
	Visible func(namespace string) bool
}

func (s Span) sees(namespace string) bool {
	return (s.Namespace == api.AllNamespaces || s.Namespace == namespace) && (s.Visible == nil || s.Visible(namespace))
}

// highest is behind all texts.
const highest = "\xff"

// PathToken is the token of a row in lists by namespace and id.
func PathToken(namespace, id string) string { return namespace + "." + id }

// pathOf is the primary key that a token names: namespaces have no dots.
func pathOf(token string) string {
	if namespace, id, ok := strings.Cut(token, "."); ok {
		return rowKey(namespace, id)
	}
	return token
}

// AgeToken is the token of a row in lists by creation.
func AgeToken(created uint64, id string) string { return fmt.Sprintf("%020d.%s", created, id) }

// ageOf is the place that a token names. A token without an index is behind all rows.
func ageOf(token string) (created uint64, id string) {
	index, id, _ := strings.Cut(token, ".")
	created, err := strconv.ParseUint(index, 10, 64)
	if err != nil {
		return math.MaxUint64, id
	}
	return created, id
}

// byName walks the rows whose primary keys begin with the prefix, from a key on. It reports whether yield wants more.
func (t table[T]) byName(tx *Txn, prefix, from string, reverse bool, yield func(*T) bool) bool {
	begin := max(prefix, from)
	if reverse {
		begin = prefix + highest
		if from != "" {
			begin = min(begin, from)
		}
	}
	more := true
	tx.mem.walk(t.layout, begin, reverse, func(key string, row any) bool {
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		tx.checked(row)
		r, ok := row.(*T)
		more = ok && yield(r)
		return more
	})
	return more
}

// named walks a table whose primary key is a name.
func (t table[T]) named(tx *Txn, s Span) iter.Seq[*T] {
	return func(yield func(*T) bool) { t.byName(tx, s.Prefix, s.From, s.Reverse, yield) }
}

// byPath walks a table whose primary key is a namespace and an id. Namespaces that are not visible are skipped.
func (t table[T]) byPath(tx *Txn, s Span) iter.Seq[*T] {
	from := pathOf(s.From)
	return func(yield func(*T) bool) {
		if s.Namespace != api.AllNamespaces {
			if s.sees(s.Namespace) {
				t.byName(tx, rowKey(s.Namespace, s.Prefix), from, s.Reverse, yield)
			}
			return
		}
		at := from
		if s.Reverse && at == "" {
			at = highest
		}
		for {
			namespace, found := t.namespaceAt(tx, at, s.Reverse)
			if !found || s.sees(namespace) && !t.byName(tx, rowKey(namespace, s.Prefix), from, s.Reverse, yield) {
				return
			}
			at = namespace // all keys of the namespace are behind its name
			if !s.Reverse {
				at += "\x01"
			}
		}
	}
}

// namespaceAt is the namespace of the first row from a key on.
func (t table[T]) namespaceAt(tx *Txn, at string, reverse bool) (namespace string, found bool) {
	tx.mem.walk(t.layout, at, reverse, func(key string, _ any) bool {
		namespace, _, found = strings.Cut(key, "\x00")
		return false
	})
	return namespace, found
}

// byAge walks a table in pages by creation, and by id where the indexes are equal. The rows of a prefix are sorted.
func (t table[T]) byAge(tx *Txn, s Span) iter.Seq[*T] {
	if s.Prefix != "" {
		return t.sorted(tx, s)
	}
	i := t.index("namespace")
	if s.Namespace != api.AllNamespaces {
		var members []*node[record]
		if s.sees(s.Namespace) {
			members = append(members, tx.mem.members(i, s.Namespace))
		}
		return t.merged(tx, s, members)
	}
	var groups []*node[record]
	tx.mem.page(i).groups.all(func(g *cell[group]) bool {
		if s.sees(g.key) {
			groups = append(groups, g.value.members)
		}
		return true
	})
	return t.merged(tx, s, groups)
}

// sorted is [table.byAge] for the rows of a prefix.
func (t table[T]) sorted(tx *Txn, s Span) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		var found []entry[record]
		i := t.index("namespace")
		tx.mem.page(t.primary()).records.from(s.Prefix, func(c *cell[record]) bool {
			if !strings.HasPrefix(c.key, s.Prefix) {
				return false
			}
			if s.sees(i.key(c.value.row)) {
				found = append(found, entry[record]{c.value.created, c})
			}
			return true
		})
		slices.SortFunc(found, func(a, b entry[record]) int { return cmp.Compare(a.head, b.head) })
		t.merged(tx, s, []*node[record]{build(edit{}, found)})(yield)
	}
}

// merged walks groups, each in the order of creation, as one.
func (t table[T]) merged(tx *Txn, s Span, groups []*node[record]) iter.Seq[*T] {
	var created uint64
	id := ""
	switch {
	case s.From != "":
		created, id = ageOf(s.From)
	case s.Reverse:
		created = math.MaxUint64
	}
	show := func(c *cell[record], yield func(*T) bool) bool {
		tx.checked(c.value.row)
		r, ok := c.value.row.(*T)
		return ok && yield(r)
	}
	return func(yield func(*T) bool) {
		if len(groups) == 1 {
			groups[0].walk(created, id, s.Reverse, func(c *cell[record]) bool { return show(c, yield) })
			return
		}
		m := &merge{reverse: s.Reverse}
		for _, g := range groups {
			g.walk(created, id, s.Reverse, func(c *cell[record]) bool {
				m.runs = append(m.runs, run{g, c})
				return false
			})
		}
		heap.Init(m)
		for len(m.runs) > 0 && show(m.runs[0].next, yield) {
			if m.runs[0].step(s.Reverse) {
				heap.Fix(m, 0)
			} else {
				heap.Pop(m)
			}
		}
	}
}

// run is a group with the member that is next.
type run struct {
	members *node[record]
	next    *cell[record]
}

// step moves on by one member and reports whether there is one.
func (r *run) step(reverse bool) (more bool) {
	at := r.next
	r.members.walk(at.value.created, at.key, reverse, func(c *cell[record]) bool {
		if c == at {
			return true
		}
		r.next, more = c, true
		return false
	})
	return more
}

// merge is a heap of runs: the one with the first member is on top.
type merge struct {
	runs    []run
	reverse bool
}

func (m *merge) Len() int      { return len(m.runs) }
func (m *merge) Swap(i, j int) { m.runs[i], m.runs[j] = m.runs[j], m.runs[i] }
func (m *merge) Push(x any)    { m.runs = append(m.runs, x.(run)) }

func (m *merge) Less(i, j int) bool {
	a, b := m.runs[i].next, m.runs[j].next
	return (cmp.Or(cmp.Compare(a.value.created, b.value.created), cmp.Compare(a.key, b.key)) < 0) != m.reverse
}

func (m *merge) Pop() any {
	last := len(m.runs) - 1
	r := m.runs[last]
	m.runs = m.runs[:last]
	return r
}

// JobSpan walks jobs by namespace and id.
func (t *Txn) JobSpan(s Span) iter.Seq[*api.Job] { return jobs.byPath(t, s) }

// VolumeSpan walks volumes by namespace and id.
func (t *Txn) VolumeSpan(s Span) iter.Seq[*api.Volume] { return volumes.byPath(t, s) }

// HostVolumeSpan walks host volumes by namespace and id.
func (t *Txn) HostVolumeSpan(s Span) iter.Seq[*api.HostVolume] { return hostVolumes.byPath(t, s) }

// HostVolumeClaimSpan walks the claims on sticky host volumes by namespace and id.
func (t *Txn) HostVolumeClaimSpan(s Span) iter.Seq[*api.HostVolumeClaim] {
	return hostVolumeClaims.byPath(t, s)
}

// AllocSpan walks allocations by creation.
func (t *Txn) AllocSpan(s Span) iter.Seq[*api.Allocation] { return allocs.byAge(t, s) }

// EvalSpan walks evaluations by creation.
func (t *Txn) EvalSpan(s Span) iter.Seq[*api.Evaluation] { return evals.byAge(t, s) }

// JobEvalSpan walks the evaluations of a job by creation.
func (t *Txn) JobEvalSpan(job string, s Span) iter.Seq[*api.Evaluation] {
	var members []*node[record]
	if s.sees(s.Namespace) {
		members = append(members, t.mem.members(evals.index("job"), rowKey(s.Namespace, job)))
	}
	return filter(evals.merged(t, s, members), func(e *api.Evaluation) bool { return strings.HasPrefix(e.ID, s.Prefix) })
}

// DeploymentSpan walks deployments by creation.
func (t *Txn) DeploymentSpan(s Span) iter.Seq[*api.Deployment] { return deployments.byAge(t, s) }

// NodeSpan walks nodes by id.
func (t *Txn) NodeSpan(s Span) iter.Seq[*api.Node] { return nodes.named(t, s) }

// NamespaceSpan walks namespaces by name.
func (t *Txn) NamespaceSpan(s Span) iter.Seq[*api.Namespace] {
	return filter(namespaces.named(t, s), func(n *api.Namespace) bool { return s.Visible == nil || s.Visible(n.Name) })
}

// NodePoolSpan walks node pools by name.
func (t *Txn) NodePoolSpan(s Span) iter.Seq[*api.NodePool] { return nodePools.named(t, s) }

// PolicySpan walks the jobs that carry scaling policies, by the ids of the policies.
func (t *Txn) PolicySpan(s Span) iter.Seq[Policy] {
	begin := max(s.Prefix, s.From)
	if s.Reverse {
		begin = min(s.Prefix+highest, cmp.Or(s.From, highest))
	}
	return func(yield func(Policy) bool) {
		t.mem.page(jobs.index("policy")).groups.walk(headOf(begin), begin, s.Reverse, func(g *cell[group]) bool {
			return strings.HasPrefix(g.key, s.Prefix) && g.value.members.all(func(c *cell[record]) bool {
				j, ok := c.value.row.(*api.Job)
				return ok && (!s.sees(j.Namespace) || yield(Policy{g.key, j}))
			})
		})
	}
}

// Policy is the id of a scaling policy with the job that carries it.
type Policy struct {
	ID  string
	Job *api.Job
}
