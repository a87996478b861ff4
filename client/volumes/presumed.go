package volumes

import (
	"path/filepath"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// Presume sets the lease of mounts whose records cannot be read: the shortest that an earlier agent process knew.
func (s *Service) Presume(term api.LeaseTerm) { s.presumed = term }

// presume makes up rows for mounts whose records cannot be read, or are lost. They may have leases: the shortest that is known, of the
// rows as well, is theirs. Where there is none nothing was mounted under one.
func (s *Service) presume(rows []*row) (out []*row) {
	if len(s.journal.damagedRows()) == 0 && !s.strays.any() {
		return nil
	}
	term := s.presumed
	for _, r := range rows {
		if l := r.leaseTerm(); term.Term <= 0 || l.Stop() < term.Stop() {
			term = l
		}
	}
	if term.Term <= 0 {
		return nil
	}
	var unknown []*lost
	for _, l := range s.lostRows("", nil) {
		if l.at != nil {
			out = append(out, s.madeUp(l, l.at, term))
		} else if l.volumeID == "" {
			unknown = append(unknown, l)
		}
	}
	if len(unknown) == 0 && !s.strays.any() {
		return out
	}
	all, err := s.unexplained()
	if err != nil {
		s.log.Error("look for mounts whose records cannot be read", "error", err)
	} else if s.strays.left(all) && len(unknown) == 0 {
		unknown = []*lost{{key: rowPrefix}}
	}
	for _, l := range unknown {
		for _, at := range all {
			out = append(out, s.madeUp(l, at, term))
		}
	}
	return out
}

// nameless lists the mounts at targets that are of no known allocation, nor of one that the servers list.
func (s *Service) nameless() (out []*mounts.Entry, err error) {
	all, err := s.unexplained()
	return slices.DeleteFunc(all, func(e *mounts.Entry) bool { return s.strays.isListed(filepath.Base(e.Point)) }), err
}

// unexplained lists the mounts at targets that are of no allocation that is taken up.
func (s *Service) unexplained() (out []*mounts.Entry, err error) {
	orphans, err := s.orphans()
	known := s.live.targets()
	for _, e := range orphans {
		if isTarget(e) && !known[filepath.Base(e.Point)] {
			out = append(out, e)
		}
	}
	return out, err
}

func (s *Service) madeUp(l *lost, at *mounts.Entry, term api.LeaseTerm) *row {
	r := &row{
		State: rowMounted, AllocID: l.allocID, Namespace: l.namespace, VolumeID: l.volumeID, Use: l.use, PluginID: pluginAt(at.Point),
		Target: place{Host: at.Point, Plugin: at.Point}, Seen: at, BootID: s.bootID, Lease: term.Term, WriteBack: term.WriteBack,
		id: l.key + " " + at.Point,
	}
	if isNode(at) {
		r.AttachmentMode, r.Seen = api.AttachmentBlock, nil
		return r
	}
	for _, st := range s.journal.allStages() {
		if st.PluginID == r.PluginID && st.Seen != nil && st.Seen.Same(at) {
			r.ExternalID, r.Stages, r.Staging = st.ExternalID, true, st.Path
		}
	}
	if r.Stages {
		return r
	}
	below, err := s.host.Below(s.root)
	if err != nil {
		s.log.Error("look for the staging of a mount whose record cannot be read", "error", err)
	}
	for _, e := range below {
		if filepath.Base(filepath.Dir(e.Point)) == csiplugins.StagingDir && pluginAt(e.Point) == r.PluginID && e.Same(at) {
			r.Stages, r.Staging = true, place{Host: e.Point, Plugin: e.Point}
		}
	}
	return r
}
