package reconcile

import (
	"github.com/open-nomad/open-nomad/api"
)

// version tells job specifications apart.
type version struct{ create, version, modified uint64 }

func versionOf(j *api.Job) version { return version{j.CreateIndex, j.Version, j.JobModifyIndex} }

// sortOut finds what has to be brought from another version to this one, in place or by replacing it.
func (p *pass) sortOut() {
	p.missing = max(0, p.group.Count-len(p.keep)-p.moving())
	for _, r := range p.canaries {
		p.res.Desired.Ignore++
		p.members.Add(r.Allocation)
	}
	ignored := uint64(0)
	for _, r := range p.keep {
		a := r.Allocation
		switch {
		case p.current(a):
			ignored++
			if p.roll.Member(a) {
				p.members.Add(a)
			}
		case a.Terminal() || a.ClientStatus == api.AllocClientStatusUnknown:
			ignored++
		case p.mustReplace(a):
			p.destructive = append(p.destructive, r)
		default:
			p.res.Update = append(p.res.Update, a)
			p.res.Desired.InPlaceUpdate++
		}
	}
	p.res.Desired.Ignore += ignored
	if p.roll.state == nil && len(p.destructive) == 0 {
		p.unpromoted = false
	}
}

func (p *pass) current(a *api.Allocation) bool {
	return a.Job != nil && a.Job.JobModifyIndex == p.in.Job.JobModifyIndex && a.Job.CreateIndex == p.in.Job.CreateIndex
}

// mustReplace reports whether a live allocation cannot become one of this version where it is.
func (p *pass) mustReplace(a *api.Allocation) bool {
	if p.current(a) {
		return false
	}
	if a.Job == nil {
		return true
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
	return differs || !p.in.CanStay(a)
}
