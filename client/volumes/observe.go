package volumes

import (
	"cmp"
	"context"
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/client/volumes/journal"

	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/client/mounthealth"
	"github.com/open-nomad/open-nomad/client/volumes/decide"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// wanted is the use as package decide has it.
func (t *try) wanted() decide.Wanted {
	r := &t.row
	return decide.Wanted{
		AllocID: r.AllocID, Use: r.Use, ExternalID: r.ExternalID, PluginID: r.PluginID, AccessMode: r.AccessMode,
		AttachmentMode: r.AttachmentMode, Options: r.MountOptions, Lease: r.Lease, Stages: r.Stages,
		Staging: r.Staging.Host,
	}
}

// observe returns what the next step depends on: before the record is written the other uses of the volume, then what is
// mounted, after NodePublish what is at the target.
func (t *try) observe(ctx context.Context) (seen decide.Seen, err error) {
	seen = decide.Seen{Before: t.beforeSeen(), Recorded: t.recorded, Staged: t.staged, Published: t.published}
	switch {
	case seen.Before.Leaving:
	case !t.recorded:
		err = t.observeUses(ctx, &seen)
	case !t.published:
		err = t.observePaths(ctx, &seen)
	default:
		seen.Target, err = t.observePublished(ctx)
	}
	return seen, err
}

func (t *try) beforeSeen() decide.Row {
	b := t.before
	if b == nil || b.State == journal.Leaving || b.State == journal.Released {
		return decide.Row{Leaving: true}
	}
	return decide.Row{Touched: b.Touched() && b.BootID == t.s.bootID, ExternalID: b.ExternalID, PluginID: b.PluginID}
}

// observeUses looks for other uses of the volume, and for a mount of this one without a record.
func (t *try) observeUses(ctx context.Context, seen *decide.Seen) (err error) {
	s, r := t.s, &t.row
	if !t.before.Touched() {
		if seen.Found, err = t.find(ctx); err != nil {
			return err
		}
	}
	seen.LeaseOver = s.leaseOver(r)
	for _, o := range s.journal.Users(r) {
		seen.Users = append(seen.Users, userOf(o))
	}
	if r.AccessMode.SingleUser() && s.unrecorded.found.Load() {
		staged, err := s.mountedAt(r.Staging.Host, r.Stages)
		if err != nil {
			return err
		}
		seen.Unrecorded = s.unrecordedUser(r, staged)
	}
	base := t.p.Base
	seen.Hidden = base.Plugin != base.Host && !within(r.Staging.Host, base.Host)
	return nil
}

// find looks for a mount of the use without a record: tasks may be using it.
func (t *try) find(ctx context.Context) (decide.Found, error) {
	s, r := t.s, &t.row
	if !s.unrecorded.found.Load() {
		return decide.Found{}, nil
	}
	at := s.findMount(csiplugins.TargetDir, targetName(r.Namespace, r.VolumeID, r.AllocID, r.Use))
	if at == nil || isNode(at) && !r.Device() {
		return decide.Found{}, nil
	}
	if err := s.unmounting(ctx, at.Point); err != nil {
		return decide.Found{}, err
	}
	t.found = at
	out := decide.Found{Path: at.Point, PluginID: pluginAt(at.Point)}
	if isNode(at) || out.PluginID != r.PluginID {
		return out, nil
	}
	if now, err := s.host.At(at.Point); err != nil || now == nil { // it may have been unmounted meanwhile
		return decide.Found{}, err
	}
	h, why := s.health.Prober().Check(ctx, at)
	out.Health, out.Why = healthSeen(h), why
	if h == mounthealth.Unresponsive {
		out.Health = decide.Unknown
	}
	return out, nil
}

// observePaths looks at the staging and at the target before the volume is published.
func (t *try) observePaths(ctx context.Context, seen *decide.Seen) (err error) {
	s, r := t.s, &t.row
	seen.Stale = s.stale(t.on)
	if r.Stages && !t.staged {
		if err := t.observeStaging(ctx, seen); err != nil {
			return err
		}
	}
	if err := s.unmounting(ctx, r.Target.Host); err != nil {
		return err
	}
	at, err := s.mountedAt(r.Target.Host, false)
	if err != nil || at == nil {
		return err
	}
	seen.Target.Mounted = true
	if b := t.before; b.State == journal.Mounting && b.BootID == s.bootID && b.Target.Host == r.Target.Host {
		h, why := s.health.Prober().Usable(ctx, at)
		seen.Target.Ours, seen.Target.Why = h != mounthealth.Failed, why
	}
	return nil
}

// observeStaging looks at the record of the staging, at its path and at its users.
func (t *try) observeStaging(ctx context.Context, seen *decide.Seen) error {
	s, r := t.s, &t.row
	mode, options, err := t.q.staging(r.AccessMode, r.MountOptions, t.on.Volume.MountOptions)
	if err != nil {
		return err
	}
	if err := s.unmounting(ctx, r.Staging.Host); err != nil {
		return err
	}
	st := s.journal.StageOf(r.PluginID, r.ExternalID)
	at, err := s.mountedAt(r.Staging.Host, st != nil)
	if err != nil {
		return err
	}
	t.staging = st
	t.next = journal.Stage{
		PluginID: r.PluginID, ExternalID: r.ExternalID, Path: r.Staging, BootID: s.bootID,
		AllocID: r.AllocID, AccessMode: mode, Options: options,
	}
	out := &seen.Staging
	if at != nil {
		out.On = at.Dev + " (" + at.FSType + ")"
	}
	if st != nil {
		out.Recorded, out.Done, out.HadMount = true, st.Done, st.Seen != nil
		out.Here = st.BootID == s.bootID && st.Path.Host == r.Staging.Host
		out.AllocID, out.AccessMode, out.Options = st.AllocID, st.AccessMode, st.Options
		out.Same = sameMount(st.Seen, at)
	}
	confirmed := out.Here && out.Done && at != nil
	for _, o := range s.journal.Users(r) {
		u := userOf(o)
		if confirmed && !out.Same && st.Seen != nil {
			on, err := s.host.At(o.Target.Host)
			if err != nil {
				return err
			}
			u.Shows = on != nil && on.Same(st.Seen)
		}
		seen.Users = append(seen.Users, u)
	}
	if confirmed && out.Same {
		h, why := s.health.Prober().Usable(ctx, at)
		out.Health, out.Why = healthSeen(h), why
	}
	if at != nil && len(seen.Users) == 0 {
		seen.Unrecorded = s.unrecordedUser(r, at)
	}
	return nil
}

// observePublished looks at what the driver has published: a mount that responds, or a device node.
func (t *try) observePublished(ctx context.Context) (out decide.Target, err error) {
	s, r := t.s, &t.row
	at, err := s.host.At(r.Target.Host)
	if err != nil {
		return out, err
	}
	const but = "the plugin reports success, but "
	switch {
	case r.Device() && !s.host.IsDevice(r.Target.Host):
		out.Missing, out.Why = true, but+r.Target.Host+" is not a block device"
	case r.Device():
	case at == nil:
		out.Missing, out.Why = true, but+"nothing is mounted at "+r.Target.Host
	default:
		if h, why := s.health.Prober().Usable(ctx, at); h != mounthealth.Healthy {
			out.Missing, out.Why = true, "the mount at "+r.Target.Host+" is not usable: "+cmp.Or(why, "it did not respond in time")
		}
	}
	if out.Missing {
		return out, nil
	}
	if r.Seen = at; r.Device() {
		return out, nil
	}
	out.StagingDir = showsStagingDir(at, r)
	if missing := missingFlags(r); missing != (mounts.Flags{}) {
		out.Flags = missing.String()
	}
	return out, nil
}

// userOf is the row as another use of its volume sees it.
func userOf(r *journal.Row) decide.User {
	return decide.User{
		AllocID: r.AllocID, Use: r.Use, VolumeID: r.VolumeID, AccessMode: r.AccessMode, AttachmentMode: r.AttachmentMode,
		Leaving: r.State == journal.Leaving,
	}
}

// healthSeen is the health of a staging as package decide has it: a mount that does not respond is made again.
func healthSeen(h mounthealth.Health) decide.Health {
	switch h {
	case mounthealth.Healthy:
		return decide.Healthy
	case mounthealth.Unknown:
		return decide.Unknown
	default:
		return decide.Failed
	}
}

// mountedAt returns what is mounted at a path. Where nothing was expected that is asked of the path first, which costs
// less than the mount table of a host with many volumes.
func (s *Service) mountedAt(path string, expected bool) (*mounts.Entry, error) {
	if !expected {
		if on, err := s.host.IsPoint(path); err != nil || !on {
			return nil, err
		}
	}
	return s.host.At(path)
}

func sameMount(a, b *mounts.Entry) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Same(b)
}

func within(path, dir string) bool { return strings.HasPrefix(path, dir+"/") }

// showsStagingDir reports whether the plugin has published the directory of the staging path and not the volume: files
// written there would be on the disk of the node. A device node in that directory is the volume.
func showsStagingDir(at *mounts.Entry, r *journal.Row) bool {
	dir := "/" + csiplugins.StagingDir + "/" + filepath.Base(r.Staging.Host) + "/"
	return at != nil && r.Stages && !r.Device() && strings.Contains(at.Root+"/", dir)
}

// leaseOver reports whether the servers may give the row's volume to another node, or have done so: nothing may be mounted
// for it before they reply.
func (s *Service) leaseOver(r *journal.Row) bool {
	return r.Lease > 0 && s.conf.Silence != nil && s.conf.Silence() >= r.LeaseTerm().Stop()
}
