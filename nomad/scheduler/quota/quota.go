package quota

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
)

// View is what quotas read of the state.
type View interface {
	Namespace(name string) *api.Namespace
	Namespaces() iter.Seq[*api.Namespace]
	Quota(name string) *api.QuotaSpec
	Allocs(ns string) iter.Seq[*api.Allocation]
}

// Amount is what allocations use.
type Amount struct {
	CPU, Cores, MemoryMB, MemoryMaxMB, SecretsMB int64
	// Devices has each name of a request once.
	Devices []Device
}

// Add is the amount and n times the other.
func (a Amount) Add(b Amount, n int64) Amount {
	return Amount{
		a.CPU + n*b.CPU, a.Cores + n*b.Cores, a.MemoryMB + n*b.MemoryMB, a.MemoryMaxMB + n*b.MemoryMaxMB, a.SecretsMB + n*b.SecretsMB,
		addDevices(a.Devices, b.Devices, n),
	}
}

// dimension is one part of an amount with the name that users know.
type dimension struct {
	name  string
	value int64
}

func (a Amount) dimensions() [5]dimension {
	return [5]dimension{{"cpu", a.CPU}, {"cores", a.Cores}, {"memory", a.MemoryMB}, {"memory_max", a.MemoryMaxMB}, {"secrets", a.SecretsMB}}
}

// AskOf is what an allocation of the group uses.
func AskOf(g *api.TaskGroup) Amount {
	if g == nil {
		return Amount{}
	}
	f := fleet.AskOf(g)
	a := Amount{CPU: f.CPU, MemoryMB: f.MemoryMB, MemoryMaxMB: fleet.MaxMemoryOf(g), SecretsMB: fleet.SecretsOf(g)}
	for _, t := range g.Tasks {
		if t.Resources != nil {
			a.Cores += int64(t.Resources.Cores)
			a.Devices = addDevices(a.Devices, devicesOf(t.Resources.Devices), 1)
		}
	}
	return a
}

// PoolOf is the node pool of the job, which may be nil.
func PoolOf(j *api.Job) string {
	if j == nil {
		return api.NodePoolDefault
	}
	return cmp.Or(j.NodePool, api.NodePoolDefault)
}

// Unlimited is the limit of what is not limited.
const Unlimited = math.MaxInt64

// most is what a number of a specification permits: 0 and none are no limit, and a negative number permits nothing.
func most(n *int) int64 {
	switch {
	case n == nil || *n == 0:
		return Unlimited
	case *n < 0:
		return 0
	}
	return int64(*n)
}

// count is a limit of all allocations, or of those of one node pool, and what they use.
type count struct {
	pool       string // "" is all
	most, used Amount
}

// Book is what the namespaces of one quota may use, and what they use.
type Book struct {
	Name       string
	counts     []count // that of all allocations is the first
	namespaces map[string]bool
	asks       map[*api.TaskGroup]Amount
}

// Limits are the limits of a quota; nil when it has none. A quota has the limits of its own region only.
func Limits(q *api.QuotaSpec) *api.QuotaResources {
	if q == nil || len(q.Limits) == 0 {
		return nil
	}
	return q.Limits[0].RegionLimit
}

// quotaOf is the quota of the namespace, or nil.
func quotaOf(v View, namespace string) *api.QuotaSpec {
	n := v.Namespace(namespace)
	if n == nil || n.Quota == "" {
		return nil
	}
	return v.Quota(n.Quota)
}

// Open counts what the quota of the namespace limits; nil when no quota limits allocations of the namespace.
func Open(v View, namespace string) *Book {
	q := quotaOf(v, namespace)
	if q == nil || !slices.ContainsFunc(counts(q), func(c count) bool { return c.most.limits() }) {
		return nil
	}
	return Of(v, q)
}

// limits reports whether the amount, as a limit, limits something.
func (a Amount) limits() bool {
	dims := a.dimensions()
	return len(a.Devices) > 0 || slices.ContainsFunc(dims[:], func(d dimension) bool { return d.value != Unlimited })
}

func counts(q *api.QuotaSpec) []count {
	l := Limits(q)
	if l == nil {
		l = &api.QuotaResources{}
	}
	all := []count{{most: Amount{most(l.CPU), most(l.Cores), most(l.MemoryMB), most(l.MemoryMaxMB), most(l.SecretsMB), limitedDevices(l.Devices)}}}
	for _, p := range l.NodePools {
		m := Amount{most(p.CPU), most(p.Cores), most(p.MemoryMB), most(p.MemoryMaxMB), most(p.SecretsMB), limitedDevices(p.Devices)}
		all = append(all, count{pool: p.NodePool, most: m})
	}
	return all
}

// Of counts what the namespaces of the quota use.
func Of(v View, q *api.QuotaSpec) *Book {
	b := &Book{Name: q.Name, counts: counts(q), namespaces: map[string]bool{}, asks: map[*api.TaskGroup]Amount{}}
	for n := range v.Namespaces() {
		if n.Quota != q.Name {
			continue
		}
		b.namespaces[n.Name] = true
		for a := range v.Allocs(n.Name) {
			b.Count(a, 1)
		}
	}
	return b
}

// Count adds an allocation (n = 1) or removes it (n = -1), unless it has ended or is of a namespace without this quota.
func (b *Book) Count(a *api.Allocation, n int64) {
	if b == nil || a == nil || a.ClientTerminal() || !b.namespaces[a.Namespace] {
		return
	}
	g := a.Group()
	ask, known := b.asks[g]
	if !known {
		ask = AskOf(g)
		b.asks[g] = ask
	}
	b.Take(PoolOf(a.Job), ask, n)
}

// Take adds n times the amount for a job of the node pool.
func (b *Book) Take(pool string, ask Amount, n int64) {
	if b == nil {
		return
	}
	for i := range b.counts {
		if c := &b.counts[i]; c.pool == "" || c.pool == pool {
			c.used = c.used.Add(ask, n)
		}
	}
}

// Used is what allocations of jobs of the node pool use, or all with "".
func (b *Book) Used(pool string) Amount {
	for _, c := range b.counts {
		if c.pool == pool {
			return c.used
		}
	}
	return Amount{}
}

// LimitHit begins the reason why a quota does not permit an allocation.
const LimitHit = "quota limit hit: "

// Refusal is why the quota does not permit the amount for a job of the node pool, or "".
func (b *Book) Refusal(pool string, ask Amount) string {
	if b == nil {
		return ""
	}
	for _, c := range b.counts {
		if c.pool != "" && c.pool != pool {
			continue
		}
		asks, used, limits := ask.dimensions(), c.used.dimensions(), c.most.dimensions()
		for i, d := range asks {
			if why := b.refusal(c.pool, d.name, d.value, used[i].value, limits[i].value); why != "" {
				return why
			}
		}
		for _, d := range c.most.Devices {
			if why := b.refusal(c.pool, "device "+d.Name, matching(ask.Devices, d), matching(c.used.Devices, d), d.Count); why != "" {
				return why
			}
		}
	}
	return ""
}

func (b *Book) refusal(pool, what string, ask, used, limit int64) string {
	if ask <= 0 || used+ask <= limit {
		return ""
	}
	if pool != "" {
		what += " of node pool " + pool
	}
	return fmt.Sprintf("%s: %s exhausted (%d needed > %d limit)", b.Name, what, used+ask, limit)
}
