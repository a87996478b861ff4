package volumes

import (
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// The state directory may be renamed while volumes are mounted below it. They go along: the mount table has them at
// their new paths, and the journal at the old ones.

// followMoved gives the rows and stages the paths at which their volumes are now. Nothing is written: the next start
// finds the same.
func (s *Service) followMoved() error {
	var rows []*row
	var stages []*stage
	for _, r := range s.journal.rows() {
		if r.BootID == s.bootID && s.isOutside(r.Target) {
			rows = append(rows, r)
		}
	}
	for _, st := range s.journal.allStages() {
		if st.BootID == s.bootID && s.isOutside(st.Path) {
			stages = append(stages, st)
		}
	}
	if len(rows)+len(stages) == 0 {
		return nil
	}
	table, err := s.host.Table()
	if err != nil {
		return err
	}
	moved := false
	for _, r := range rows {
		moved = moved || s.isMoved(table, r.Target)
	}
	for _, st := range stages {
		moved = moved || s.isMoved(table, st.Path)
	}
	if !moved {
		return nil
	}
	s.log.Warn("volumes are mounted below a directory that was renamed", "now", s.root)
	for _, r := range rows {
		next := *r
		next.Target, next.Staging = s.follow(table, r.Target), s.follow(table, r.Staging)
		s.journal.keep(&next)
	}
	for _, st := range stages {
		next := *st
		next.Path = s.follow(table, st.Path)
		s.journal.stages[st.key()] = &next
	}
	return nil
}

// isOutside reports whether a path is one of ours below another directory.
func (s *Service) isOutside(p place) bool {
	dir := filepath.Base(filepath.Dir(p.Host))
	return (dir == csiplugins.StagingDir || dir == csiplugins.TargetDir) && !within(p.Host, s.root)
}

// isMoved reports whether something is mounted at the path that one would have now, and no more at the old one.
func (s *Service) isMoved(table mounts.List, p place) bool {
	return table.AtExactly(p.Host) == nil && table.AtExactly(s.movedTo(p.Host)) != nil
}

// follow returns where a path is after the directory was renamed, unless something is mounted at the old one.
func (s *Service) follow(table mounts.List, p place) place {
	if !s.isOutside(p) || table.AtExactly(p.Host) != nil {
		return p
	}
	now := s.movedTo(p.Host)
	if p.Plugin == p.Host {
		p.Plugin = now
	}
	p.Host = now
	return p
}

// movedTo is the path below our directory with the same kind, plugin, directory and name.
func (s *Service) movedTo(path string) string {
	names := strings.Split(path, "/")
	return filepath.Join(append([]string{s.root}, names[max(0, len(names)-4):]...)...)
}
