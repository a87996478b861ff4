package nomad

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
)

// duty is something that only the leader does, for as long as it leads.
type duty struct {
	name string
	run  func(context.Context) error
}

// lead runs the duties for one term. A duty that fails ends the term's work; it is begun again while
// this server leads.
func (s *Server) lead(term context.Context) error {
	s.conf.Log.Info("leading", "server", s.id)
	group, term := errgroup.WithContext(term)
	for _, d := range s.duties {
		group.Go(func() error {
			err := d.run(term)
			if err != nil && !errors.Is(err, context.Canceled) {
				s.conf.Log.Error("leader's duty ended", "duty", d.name, "error", err)
				return err
			}
			return nil
		})
	}
	return group.Wait()
}
