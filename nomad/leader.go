package nomad

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
)

// leaderLoop is something that only the leader does, for as long as it leads.
type leaderLoop struct {
	name string
	run  func(context.Context) error
}

// lead runs the loops for one term. One that fails ends the term's work; it is begun again while
// this server leads.
func (s *Server) lead(term context.Context) error {
	s.conf.Log.Info("leading", "server", s.id)
	group, term := errgroup.WithContext(term)
	for _, l := range s.loops {
		group.Go(func() error {
			err := l.run(term)
			if err != nil && !errors.Is(err, context.Canceled) {
				s.conf.Log.Error("a loop of the leader ended", "loop", l.name, "error", err)
				return err
			}
			return nil
		})
	}
	return group.Wait()
}
