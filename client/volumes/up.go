package volumes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// claimTry bounds one call to the servers; a wait that is longer is a new call.
const claimTry = 5 * time.Minute

// wish is one volume of an allocation with the requests that name it.
type wish struct {
	alloc    *api.Allocation
	volumeID string
	requests map[string]*api.VolumeRequest
	// wait tells why the volume is not mounted yet; nil when nobody is told.
	wait *wait
}

// readOnly reports whether no request wants to write.
func (w *wish) readOnly() bool {
	for _, r := range w.requests {
		if !r.ReadOnly {
			return false
		}
	}
	return true
}

// wishes lists the CSI volumes of the allocation's group in the order of their ids.
func wishes(a *api.Allocation) []*wish {
	g := a.Group()
	if g == nil {
		return nil
	}
	byID := map[string]*wish{}
	var out []*wish
	for alias, r := range g.Volumes {
		if r.Type != api.VolumeTypeCSI {
			continue
		}
		id := sourceOf(r, a.Name)
		if byID[id] == nil {
			byID[id] = &wish{alloc: a, volumeID: id, requests: map[string]*api.VolumeRequest{}}
			out = append(out, byID[id])
		}
		byID[id].requests[alias] = r
	}
	slices.SortFunc(out, func(a, b *wish) int { return strings.Compare(a.volumeID, b.volumeID) })
	return out
}

// sourceOf is the id of the volume that a request means; allocation names end in [index].
func sourceOf(r *api.VolumeRequest, allocName string) string {
	if i := strings.LastIndexByte(allocName, '['); r.PerAlloc && i >= 0 {
		return r.Source + allocName[i:]
	}
	return r.Source
}

// Up claims, stages and publishes all CSI volumes of the allocation's group and returns the mounts by the
// names of their requests. It may be repeated, after a restart too: live mounts are adopted without any call.
func (s *Service) Up(ctx context.Context, alloc *api.Allocation) (map[string]Mount, error) {
	list := wishes(alloc)
	out := map[string]Mount{}
	if len(list) == 0 {
		return out, nil
	}
	s.setLive(alloc.ID, true)
	s.ward.know(alloc)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, w := range list {
		all.Go(func() {
			r, err := s.mount(ctx, w)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("volume %q: %w", w.volumeID, err))
				cancel()
				return
			}
			for alias, req := range w.requests {
				out[alias] = Mount{Source: r.Target.Host, Device: r.device(), ReadOnly: r.ReadOnly || req.ReadOnly, Owner: r.Owner}
			}
		})
	}
	all.Wait()
	if len(errs) > 0 {
		return nil, first(errs)
	}
	return out, nil
}

// first leaves out what only failed because something else did.
func first(errs []error) error {
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

// mount brings one volume up for one allocation.
func (s *Service) mount(ctx context.Context, w *wish) (*row, error) {
	key := rowKey(w.alloc.ID, w.alloc.Namespace, w.volumeID)
	switch r := s.journal.row(key); {
	case r == nil:
		if _, err := s.journal.put(row{State: rowClaiming, AllocID: w.alloc.ID, Namespace: w.alloc.Namespace, VolumeID: w.volumeID}); err != nil {
			return nil, err
		}
	case r.State == rowLeaving || r.State == rowReleased:
		return nil, fault.New(fault.Conflict, "it is being unmounted for allocation %s", w.alloc.ID)
	case r.State == rowMounted:
		ok, err := s.adoptable(r)
		if err != nil {
			return nil, err
		}
		if ok {
			s.log.Debug("adopted mount", "alloc_id", r.AllocID, "volume_id", r.VolumeID, "path", r.Target.Host)
			return r, nil
		}
	}
	begin := time.Now()
	before := s.journal.row(key)
	w.wait = &wait{s: s, wish: w, begun: begin, shown: before != nil && before.touched()}
	reply, err := s.claim(ctx, w)
	if err != nil {
		return nil, err
	}
	r, err := s.publish(ctx, w, reply)
	s.tellMount("Mount volume", w.volumeID, w.alloc.ID, err)
	if err != nil {
		s.tellNoRoom(ctx, w, err)
		return nil, err
	}
	w.wait.over()
	s.log.Info("mounted volume", "volume_id", w.volumeID, "alloc_id", w.alloc.ID, "plugin_id", r.PluginID, "took", time.Since(begin))
	return r, nil
}

// backoff tells of failed tries, with show the servers too.
func (s *Service) backoff(t *wait, show bool, what string, args ...any) csi.Backoff {
	return csi.Backoff{First: min(500*time.Millisecond, s.conf.RetryMax), Max: s.conf.RetryMax, Noted: func(err error, next time.Duration) {
		s.log.Warn(what, append(args, "retry_in", next, "error", err)...)
		t.because(err.Error(), time.Now().Add(next), show)
	}}
}

// claim waits until the servers say that the volume may be mounted.
func (s *Service) claim(ctx context.Context, w *wish) (*api.VolumeClaimResponse, error) {
	var reply *api.VolumeClaimResponse
	b := s.backoff(w.wait, false, "claim volume", "volume_id", w.volumeID, "alloc_id", w.alloc.ID)
	err := csi.Do(ctx, b, func(ctx context.Context) (err error) {
		reply, err = s.claimOnce(ctx, w)
		return err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("claim: %w", err)
	case reply == nil || reply.Volume == nil:
		return nil, fault.New(fault.Internal, "claim: the servers answered without a volume")
	}
	return reply, nil
}

// claimOnce asks until the claim is ready, and passes on what the servers say of the wait meanwhile.
func (s *Service) claimOnce(ctx context.Context, w *wish) (*api.VolumeClaimResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTry)
	defer cancel()
	req := &api.VolumeClaimRequest{VolumeID: w.volumeID, AllocID: w.alloc.ID, NodeID: s.conf.NodeID(), NodeSecret: s.conf.NodeSecret(), Tell: true}
	req.Namespace = w.alloc.Namespace
	var reason atomic.Value
	reason.Store("the servers have not answered yet")
	defer w.wait.during(false, func() string { return "claim: " + reason.Load().(string) })()
	for {
		reply, err := wire.VolumeClaim.Call(ctx, s.conf.Servers, req)
		switch {
		case err != nil || reply == nil || reply.Waiting == "":
			return reply, err
		case reply.Waiting == req.Known:
			return nil, fault.New(fault.Unavailable, "the servers say twice: %s", reply.Waiting)
		}
		req.Known = reply.Waiting
		reason.Store(reply.Waiting)
		w.wait.since("claim: " + reply.Waiting)
	}
}

// publish stages and publishes with retries. The plugin is waited for outside of the volume's turn.
func (s *Service) publish(ctx context.Context, w *wish, reply *api.VolumeClaimResponse) (*row, error) {
	id := pluginOf(reply)
	if err := checkPluginID(id); err != nil {
		return nil, err
	}
	var done *row
	b := s.backoff(w.wait, true, "mount volume", "volume_id", w.volumeID, "alloc_id", w.alloc.ID, "plugin_id", id)
	err := csi.Do(ctx, b, func(ctx context.Context) error {
		defer w.wait.during(true, func() string { return "mount: " + s.silent(id) })()
		p, err := s.plugins.wait(ctx, api.CSIPluginTypeNode, id, s.conf.PluginWait)
		if err != nil {
			if errors.Is(err, errNoPlugin) {
				return fault.New(fault.NotFound, "%v", err)
			}
			return err
		}
		done, err = s.publishOnce(ctx, p, w, reply)
		if errors.Is(err, fault.Unavailable) {
			p.hurry()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if reply.NodeExpand {
		s.expandQuietly(ctx, done, reply.Volume)
	}
	return done, nil
}

func pluginOf(reply *api.VolumeClaimResponse) string {
	if reply.Claim != nil && reply.Claim.PluginID != "" {
		return reply.Claim.PluginID
	}
	return reply.Volume.PluginID
}

// intent makes the row that says what is about to be done.
func (s *Service) intent(p *plugin, w *wish, reply *api.VolumeClaimResponse) row {
	v := reply.Volume
	r := row{
		State: rowMounting, AllocID: w.alloc.ID, Namespace: w.alloc.Namespace, VolumeID: w.volumeID,
		PluginID: p.PluginID, ExternalID: v.RemoteID(), ReadOnly: w.readOnly(), BootID: s.bootID,
		MountOptions: options(v, w), PublishContext: reply.PublishContext, Context: contextOf(v), Owner: v.Owner,
		OnMountDead: v.OnMountDead,
	}
	for _, req := range w.requests {
		r.AccessMode, r.AttachmentMode = api.AccessMode(req.AccessMode), api.AttachmentMode(req.AttachmentMode)
	}
	if c := reply.Claim; c != nil {
		r.ReadOnly = r.ReadOnly || c.Mode == api.ClaimRead
		r.AccessMode, r.AttachmentMode = orDefault(c.AccessMode, r.AccessMode), orDefault(c.AttachmentMode, r.AttachmentMode)
		r.ExternalID = orDefault(c.ExternalID, r.ExternalID)
		if c.MountOptions != nil {
			r.MountOptions = c.MountOptions
		}
		r.Lease = c.Lease
	}
	if r.AccessMode == api.AccessSingleNodeReader || r.AccessMode == api.AccessMultiNodeReader {
		r.ReadOnly = true
	}
	r.AttachmentMode = orDefault(r.AttachmentMode, api.AttachmentFileSystem)
	r.Target = targetAt(p.Base, r.Namespace, r.VolumeID, r.AllocID)
	if s.plugins.stages(p) {
		r.Stages, r.Staging = true, stagingAt(p.Base, r.PluginID, r.ExternalID)
	}
	return r
}

// contextOf is the driver's context of volumes that it created, else the user's.
func contextOf(v *api.Volume) map[string]string {
	if len(v.Provision.Context) > 0 {
		return v.Provision.Context
	}
	return v.Context
}

// options lets the request's mount options replace the volume's, field by field.
func options(v *api.Volume, w *wish) *api.MountOptions {
	for _, req := range w.requests {
		if req.MountOptions == nil {
			continue
		}
		merged := *req.MountOptions
		if o := v.MountOptions; o != nil {
			merged.FSType = orDefault(merged.FSType, o.FSType)
			if merged.MountFlags == nil {
				merged.MountFlags = o.MountFlags
			}
		}
		return &merged
	}
	return v.MountOptions
}

// publishOnce makes one try, alone among the calls of the volume.
func (s *Service) publishOnce(ctx context.Context, p *plugin, w *wish, reply *api.VolumeClaimResponse) (*row, error) {
	next := s.intent(p, w, reply)
	release, err := s.turn(ctx, next.PluginID, next.volume())
	if err != nil {
		return nil, err
	}
	defer release()
	if now := s.journal.row(next.key()); now == nil || now.State == rowLeaving || now.State == rowReleased {
		return nil, fault.New(fault.Conflict, "it is being unmounted for allocation %s", next.AllocID)
	}
	if err := s.admit(&next); err != nil {
		return nil, err
	}
	if err := makeDirs(p.Base.Host); err != nil {
		return nil, err
	}
	before := s.journal.row(next.key())
	next.Stale = before != nil && before.Stale
	r, err := s.journal.put(next)
	if err != nil {
		return nil, err
	}
	secrets := reply.Volume.Secrets
	if r.Stages {
		if err := s.stage(ctx, p, r, secrets); err != nil {
			return nil, fmt.Errorf("stage: %w", err)
		}
	}
	if err := s.clearTarget(ctx, p, r, before); err != nil {
		return nil, err
	}
	if err := p.client.NodePublish(ctx, r.node(secrets)); err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	seen, err := s.verify(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := own(ctx, p, r); err != nil {
		return nil, err
	}
	mounted := *r
	mounted.State, mounted.Seen = rowMounted, seen
	return s.journal.put(mounted)
}

// alone reports whether the servers let one user at a time have a volume in this mode.
func alone(m api.AccessMode) bool {
	return m == api.AccessSingleNodeSingle || m == api.AccessSingleNodeWriter || m == api.AccessSingleNodeReader
}

// admit keeps to the access modes even where drivers do not, and where a claim was given up while this node
// was away: the mounts of its allocation must be gone before another one is given the volume here.
func (s *Service) admit(r *row) error {
	others := s.journal.users(r)
	if alone(r.AccessMode) && len(others) > 0 {
		return fault.New(fault.Unavailable, "allocation %s has it, and access mode %s allows one", others[0].AllocID, r.AccessMode)
	}
	for _, o := range others {
		if o.AttachmentMode != r.AttachmentMode {
			return fault.New(fault.Conflict, "allocation %s uses it as a %s on this node", o.AllocID, o.AttachmentMode)
		}
		if alone(o.AccessMode) {
			return fault.New(fault.Unavailable, "allocation %s has it alone", o.AllocID)
		}
	}
	return nil
}

// clearTarget takes away what is mounted at the target without being ours from a try just before.
func (s *Service) clearTarget(ctx context.Context, p *plugin, r, before *row) error {
	on, err := mounts.IsPoint(r.Target.Host)
	if err != nil || !on {
		return err
	}
	if before != nil && before.State == rowMounting && before.BootID == s.bootID && before.Target == r.Target {
		return nil
	}
	s.log.Warn("unpublish a mount that is not in the journal", "volume_id", r.VolumeID, "path", r.Target.Host)
	if err := p.client.NodeUnpublish(ctx, r.ExternalID, r.Target.Plugin); err != nil {
		return fmt.Errorf("unpublish what is mounted at the target: %w", err)
	}
	return nil
}

func (s *Service) setLive(allocID string, on bool) {
	s.liveMu.Lock()
	defer s.liveMu.Unlock()
	if on {
		s.live[allocID] = true
	} else {
		delete(s.live, allocID)
	}
}

func (s *Service) isLive(allocID string) bool {
	s.liveMu.Lock()
	defer s.liveMu.Unlock()
	return s.live[allocID]
}

// tellMount records an event of the node.
func (s *Service) tellMount(message, volumeID, allocID string, err error) {
	d := map[string]string{"volume_id": volumeID, "alloc_id": allocID, "success": "true"}
	if err != nil {
		d["success"], d["error"] = "false", err.Error()
	}
	s.conf.NodeEvent(&api.NodeEvent{Subsystem: "Storage", Message: message, Details: d, Timestamp: time.Now()})
}
