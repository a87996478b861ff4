package volumes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/client/volumes/journal"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/csiplugins"
)

// progressInterval is how often the progress of setting a volume's owner is reported.
const progressInterval = 5 * time.Second

// setOwner gives what was just published to the volume's owner and ends the mounting. That may take long on a
// volume with many files, so it holds neither the volume's turn nor a place at the plugin, and ends with ctx.
func (s *Service) setOwner(ctx context.Context, p *csiplugins.Plugin, q *request, r *journal.Row) (*journal.Row, error) {
	var seen atomic.Int64
	told := s.reportProgress(q, func() string {
		return fmt.Sprintf("mount: the owner of the volume's files is set, %d so far", seen.Load())
	})
	err := s.conf.Own(ctx, r.Target.Host, r.Owner, s.plugins.TakesGroup(p), &seen)
	told()
	if err != nil {
		return nil, err
	}
	unlock, err := s.plugins.Lock(ctx, r.Volume())
	if err != nil {
		return nil, err
	}
	defer unlock()
	now := s.journal.Row(r.Key())
	if now == nil || now.State != journal.Mounting && now.State != journal.Mounted {
		return nil, fault.New(fault.Conflict, "it is being unmounted for allocation %s", r.AllocID)
	}
	if ok, err := s.adoptable(now); err != nil || !ok {
		return nil, errors.Join(err, fault.New(fault.Unavailable, "it was unmounted while the owner of its files was set"))
	}
	next := *now
	next.State = journal.Mounted
	return s.journal.Put(ctx, next)
}

// reportProgress reports a changing reason for the wait until stop is called.
func (s *Service) reportProgress(q *request, reason func() string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		wait := time.NewTimer(slowAfter)
		defer wait.Stop()
		for {
			select {
			case <-wait.C:
				q.wait.progress(reason())
				wait.Reset(progressInterval)
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// mountGroup is the group for drivers that give mounts to groups themselves.
func mountGroup(r *journal.Row) string {
	if o := r.Owner; o != nil && o.Policy != api.OwnerNever && !r.Device() {
		return strconv.Itoa(o.GID)
	}
	return ""
}
