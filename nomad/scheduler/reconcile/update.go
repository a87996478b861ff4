package reconcile

import (
	"github.com/open-nomad/open-nomad/api"
)

// version tells job specifications apart.
type version struct{ create, version, modified uint64 }

func versionOf(j *api.Job) version { return version{j.CreateIndex, j.Version, j.JobModifyIndex} }

// splitByVersion finds what has to be brought from another version to this one, in place or by replacing it.
func (p *pass) splitByVersion() {
	p.missing = max(0, p.group.Count-len(p.keep)-p.migratingCount())
	for _, r := range p.canaries {
		p.res.Desired.Ignore++
		p.members.Add(r.Allocation)
	}
	others := 0
	for i := range p.keep {
		switch r := &p.keep[i]; {
		case !r.current:
			others++
		case r.member && !r.ok:
			p.members.Add(r.Allocation)
		}
	}
	p.res.Desired.Ignore += uint64(len(p.keep) - others)
	if others > 0 {
		p.splitOutdated(others)
	}
	if p.roll.state == nil && len(p.destructive) == 0 {
		p.unpromoted = false
	}
}

func (p *pass) splitOutdated(n int) {
	for _, r := range p.keep {
		a := r.Allocation
		switch {
		case r.current:
		case a.Terminal() || a.ClientStatus == api.AllocClientStatusUnknown:
			p.res.Desired.Ignore++
		case p.mustReplace(r):
			if p.destructive == nil {
				p.destructive = make([]row, 0, n)
			}
			p.destructive = append(p.destructive, r)
		default:
			if p.res.Update == nil {
				p.res.Update = make([]*api.Allocation, 0, n)
			}
			p.res.Update = append(p.res.Update, a)
			p.res.Desired.InPlaceUpdate++
		}
	}
}

// mustReplace reports whether a live allocation cannot become one of this version where it is.
func (p *pass) mustReplace(r row) bool {
	a := r.Allocation
	switch {
	case r.current:
		return false
	case a.Job == nil:
		return true
	case p.lastCompared.job == a.Job:
		return p.lastCompared.differs || !p.in.CanStay(a)
	}
	v := versionOf(a.Job)
	differs, known := p.differs[v]
	if !known {
		differs = Destructive(a.Job, p.in.Job, p.group.Name)
		if p.differs == nil {
			p.differs = map[version]bool{}
		}
		p.differs[v] = differs
	}
	p.lastCompared = comparison{a.Job, differs}
	return differs || !p.in.CanStay(a)
}

// comparison says whether allocations of a job must be replaced.
type comparison struct {
	job     *api.Job
	differs bool
}
