package volumes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/client/volumes/journal"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// claimTry bounds one call to the servers; a wait that is longer is a new call.
const claimTry = 5 * time.Minute

// Up claims, stages and publishes all CSI volumes of the allocation's group and returns the mounts by the
// names of their requests. It may be repeated, after a restart too: live mounts are adopted without any call.
func (s *Service) Up(ctx context.Context, alloc *api.Allocation) (map[string]Mount, error) {
	list := requestsOf(alloc)
	out := map[string]Mount{}
	if len(list) == 0 {
		return out, nil
	}
	s.allocs.add(alloc)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, q := range list {
		all.Go(func() {
			s.begin(ctx, "up "+q.key())
			r, err := s.mount(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("volume %q: %w", q.name(), err))
				cancel()
				return
			}
			q.serve(r, out)
		})
	}
	all.Wait()
	if len(errs) > 0 {
		return nil, dropCanceled(errs)
	}
	return out, nil
}

// Adopt returns the mounts that an earlier agent process made for the allocation, by the names of their requests. It
// calls and writes nothing; an error means that one of them is not there.
func (s *Service) Adopt(alloc *api.Allocation) (map[string]Mount, error) {
	out := map[string]Mount{}
	for _, q := range requestsOf(alloc) {
		r, err := s.adopt(q)
		if err == nil && r == nil {
			err = fault.New(fault.Unavailable, "it is no longer mounted")
		}
		if err != nil {
			return nil, fmt.Errorf("volume %q: %w", q.name(), err)
		}
		q.serve(r, out)
	}
	return out, nil
}

// dropCanceled joins the errors without those that follow from the cancellation after the first error.
func dropCanceled(errs []error) error {
	var causes []error
	for _, err := range errs {
		if !errors.Is(err, context.Canceled) {
			causes = append(causes, err)
		}
	}
	if len(causes) == 0 {
		causes = errs[:1]
	}
	return errors.Join(causes...)
}

// mount brings one use of a volume up for one allocation.
func (s *Service) mount(ctx context.Context, q *request) (*journal.Row, error) {
	if r, err := s.adopt(q); r != nil || err != nil {
		return r, err
	}
	key := q.key()
	before := s.journal.Row(key)
	begin := time.Now()
	q.wait = &wait{s: s, req: q, begun: begin, shown: before != nil && before.Touched()}
	if before == nil {
		told := q.wait.during(false, func() string { return "mount: " + diskSilence })
		s.journal.Note(journal.Row{State: journal.Claiming, AllocID: q.alloc.ID, Namespace: q.alloc.Namespace, VolumeID: q.volumeID(), Use: q.use.Name})
		told()
	}
	given, err := s.claim(ctx, q)
	if err != nil {
		return nil, err
	}
	r, err := s.publish(ctx, q, given)
	s.reportMount("Mount volume", q.volumeID(), q.alloc.ID, err)
	if err != nil {
		s.reportNoRoom(ctx, q, err)
		return nil, err
	}
	q.wait.over()
	s.log.Info("mounted volume", "volume_id", q.name(), "alloc_id", q.alloc.ID, "plugin_id", r.PluginID, "took", time.Since(begin))
	return r, nil
}

// adopt returns the mount of the use that an earlier agent process made, or nil.
func (s *Service) adopt(q *request) (*journal.Row, error) {
	r := s.journal.Row(q.key())
	switch {
	case r == nil:
		return nil, nil
	case r.State == journal.Leaving || r.State == journal.Released:
		return nil, fault.New(fault.Conflict, "it is being unmounted for allocation %s", q.alloc.ID)
	case r.State != journal.Mounted:
		return nil, nil
	}
	ok, err := s.adoptable(r)
	if err != nil || !ok {
		return nil, err
	}
	s.log.Debug("adopted mount", "alloc_id", r.AllocID, "volume_id", q.name(), "path", r.Target.Host)
	return r, nil
}

// adoptable reports whether a mount of an earlier agent process is there as the journal has it.
func (s *Service) adoptable(r *journal.Row) (bool, error) {
	if r.BootID != s.bootID {
		return false, nil
	}
	at, err := s.host.At(r.Target.Host)
	return err == nil && s.isThere(r, at), err
}

// isThere reports whether the mount of the row is at its target.
func (s *Service) isThere(r *journal.Row, at *mounts.Entry) bool {
	switch {
	case r.BootID != s.bootID:
		return false
	case r.Device() && r.Seen == nil:
		return s.host.IsDevice(r.Target.Host)
	}
	return at != nil && sameMount(r.Seen, at)
}

// Mounted returns an error of class fault.Unavailable if a volume of a running allocation is no longer mounted: a task would
// write to the directory below.
func (s *Service) Mounted(allocID string) error {
	for _, r := range s.journal.OfAlloc(allocID) {
		ok, err := s.adoptable(r)
		switch {
		case err != nil:
			return fault.New(fault.Unavailable, "check whether volume %q is mounted: %w", r.VolumeID, err)
		case !ok || r.State != journal.Mounted:
			return fault.New(fault.Unavailable, "volume %q is no longer mounted at %s", r.VolumeID, r.Target.Host)
		}
	}
	return nil
}

// backoff reports failed attempts to the tasks and, with show, to the servers.
func (s *Service) backoff(t *wait, show bool, what string, args ...any) csi.Backoff {
	b := csi.Backoff{First: min(500*time.Millisecond, s.conf.RetryMax), Max: s.conf.RetryMax, Noted: func(err error, next time.Duration) {
		s.log.Warn(what, append(args, "retry_in", next, "error", err)...)
		t.because(err.Error(), time.Now().Add(next), show)
	}}
	if chance := s.conf.Chance; chance != nil {
		b.Chance = func(below time.Duration) time.Duration { return chance(what+fmt.Sprint(args...), below) }
	}
	return b
}

// grant is the reply of the servers that allows a mount.
type grant struct {
	*api.VolumeClaimResponse
	// at is the uptime at the reply.
	at time.Duration
	// mountReports counts the full mount reports before the request.
	mountReports int64
}

// stale reports whether the servers may have granted the volume to another allocation since. Servers that requested a full
// mount report may have been restored from a snapshot without this grant.
func (s *Service) stale(g *grant) bool {
	l := api.LeaseTerm{Term: g.Claim.Lease, WriteBack: g.Claim.WriteBack}
	return l.Term > 0 && s.host.Uptime()-g.at >= l.Stop() || s.mountReports.Load() != g.mountReports
}

// errStale leads to another claim.
var errStale = errors.New("the servers may have granted it to another allocation")

// claim waits until the servers grant the volume.
func (s *Service) claim(ctx context.Context, q *request) (*grant, error) {
	var reply *api.VolumeClaimResponse
	var reports int64
	b := s.backoff(q.wait, false, "claim volume", "volume_id", q.name(), "alloc_id", q.alloc.ID)
	err := csi.Do(ctx, b, func(ctx context.Context) (err error) {
		reports = s.mountReports.Load()
		reply, err = s.claimOnce(ctx, q)
		return err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("claim: %w", err)
	case reply == nil || reply.Volume == nil || reply.Claim == nil:
		return nil, fault.New(fault.Internal, "claim: the servers replied without a volume or claim")
	}
	return &grant{reply, s.host.Uptime(), reports}, nil
}

// claimOnce requests the claim until it is granted, and reports the reason of the wait.
func (s *Service) claimOnce(ctx context.Context, q *request) (*api.VolumeClaimResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTry)
	defer cancel()
	req := &api.VolumeClaimRequest{
		VolumeID: q.volumeID(), AllocID: q.alloc.ID, Use: q.use.Name, NodeID: s.conf.NodeID(), NodeSecret: s.conf.NodeSecret(), Tell: true,
	}
	req.Namespace = q.alloc.Namespace
	var reason atomic.Value
	reason.Store("the servers have not responded yet")
	defer q.wait.during(false, func() string { return "claim: " + reason.Load().(string) })()
	for {
		reply, err := wire.VolumeClaim.Call(ctx, s.conf.Servers, req)
		switch {
		case err != nil || reply == nil || reply.Waiting == "":
			return reply, err
		case reply.Waiting == req.Known:
			return nil, fault.New(fault.Unavailable, "the claim still waits: %s", reply.Waiting)
		}
		req.Known = reply.Waiting
		reason.Store(reply.Waiting)
		q.wait.since("claim: " + reply.Waiting)
	}
}

// publish stages and publishes with retries, and gives the mount to its owner. The plugin is waited for outside
// of the volume's turn, and the claim is asked for again when it is stale then.
func (s *Service) publish(ctx context.Context, q *request, given *grant) (*journal.Row, error) {
	id := given.Claim.PluginID
	if err := csiplugins.CheckPluginID(id); err != nil {
		return nil, err
	}
	var done *journal.Row
	b := s.backoff(q.wait, true, "mount volume", "volume_id", q.name(), "alloc_id", q.alloc.ID, "plugin_id", id)
	others, _ := s.others.LoadOrStore(id, &csi.Others{})
	b.Others = others.(*csi.Others)
	err := csi.Do(ctx, b, func(ctx context.Context) error {
		silent := func() (stop func()) {
			return q.wait.during(true, func() string { return "mount: " + s.silenceReason(id) })
		}
		told := silent()
		defer func() { told() }()
		p, err := s.plugins.Wait(ctx, api.CSIPluginTypeNode, id, s.conf.PluginWait)
		if errors.Is(err, csiplugins.ErrNoPlugin) {
			return fault.New(fault.NotFound, "%v", err)
		}
		if err != nil {
			return err
		}
		for again := true; again; again = errors.Is(err, errStale) {
			if s.stale(given) {
				told() // silence of the servers is reported separately
				if given, err = s.claim(ctx, q); err != nil {
					return err
				}
				told = silent()
			}
			// An unmount that ends after a mount would take that with it.
			volume := csiplugins.VolumeKey(id, cmp.Or(given.Claim.ExternalID, given.Volume.RemoteID()))
			if err = s.awaitEarlierCalls(ctx, "", volume); err != nil {
				return err
			}
			done, err = s.publishOnce(ctx, p, q, given)
		}
		if err != nil {
			if errors.Is(err, fault.Unavailable) {
				p.Recheck()
			}
			return err
		}
		if done.State == journal.Mounted {
			return nil
		}
		told()
		done, err = s.setOwner(ctx, p, q, done)
		return err
	})
	if err != nil {
		return nil, err
	}
	if given.NodeExpand {
		s.expandQuietly(ctx, done, given.Volume)
	}
	return done, nil
}

// reportMount records a node event about a mount.
func (s *Service) reportMount(message, volumeID, allocID string, err error) {
	d := map[string]string{"volume_id": volumeID, "alloc_id": allocID, "success": "true"}
	if err != nil {
		d["success"], d["error"] = "false", err.Error()
	}
	s.conf.NodeEvent(&api.NodeEvent{Subsystem: "Storage", Message: message, Details: d, Timestamp: time.Now()})
}
