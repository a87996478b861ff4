package volumes

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// stage makes sure that the volume is staged. A staging of before is used only when the journal and the
// mount table agree on it. The caller holds the volume's turn.
func (s *Service) stage(ctx context.Context, p *plugin, r *row, secrets map[string]string) error {
	st := s.journal.stageOf(r.PluginID, r.ExternalID)
	at, err := stagedAt(r.Staging.Host, st != nil)
	if err != nil {
		return err
	}
	if st != nil && st.Done && st.BootID == s.bootID && st.Path.Host == r.Staging.Host && sameMount(st.Seen, at) &&
		(at == nil || s.probes.alive(ctx, at.Point)) {
		return nil
	}
	if at != nil && len(s.journal.users(r)) == 0 && (st == nil || st.Done) {
		s.log.Warn("unstage what an earlier use left behind", "volume_id", r.VolumeID, "path", r.Staging.Host)
		if err := s.unstage(ctx, p, r.ExternalID, r.Staging); err != nil {
			return fmt.Errorf("unstage what was left behind: %w", err)
		}
	}
	if err := makeDir(r.Staging.Host); err != nil {
		return err
	}
	next := stage{PluginID: r.PluginID, ExternalID: r.ExternalID, Path: r.Staging, BootID: s.bootID}
	if err := s.journal.putStage(next); err != nil {
		return err
	}
	if err := p.client.NodeStage(ctx, r.node(secrets)); err != nil {
		return err
	}
	if next.Seen, err = mounts.At(r.Staging.Host); err != nil {
		return err
	}
	next.Done = true
	return s.journal.putStage(next)
}

// stagedAt returns what is mounted at a staging path. Where nothing was expected that is asked of the path first,
// which costs less than the mount table of a host with many volumes.
func stagedAt(path string, expected bool) (*mounts.Entry, error) {
	if !expected {
		if on, err := mounts.IsPoint(path); err != nil || !on {
			return nil, err
		}
	}
	return mounts.At(path)
}

// unstage calls the driver and believes the mount table.
func (s *Service) unstage(ctx context.Context, p *plugin, externalID string, path place) error {
	if err := p.client.NodeUnstage(ctx, externalID, p.see(path)); err != nil {
		return err
	}
	on, err := mounts.IsPoint(path.Host)
	if err != nil {
		return err
	}
	if on {
		return fault.New(fault.Unavailable, "the plugin says that it is unstaged, but %s is still mounted", path.Host)
	}
	return nil
}

func sameMount(a, b *mounts.Entry) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Same(b)
}

// verify looks at what the driver published: a mount that answers, or a device node.
func (s *Service) verify(ctx context.Context, r *row) (*mounts.Entry, error) {
	at, err := mounts.At(r.Target.Host)
	if err != nil {
		return nil, err
	}
	if r.device() {
		if !isDevice(r.Target.Host) {
			return nil, fault.New(fault.Unavailable, "the plugin says that it is published, but %s is no block device", r.Target.Host)
		}
		return at, nil
	}
	if at == nil {
		return nil, fault.New(fault.Unavailable, "the plugin says that it is published, but nothing is mounted at %s", r.Target.Host)
	}
	if !s.probes.alive(ctx, at.Point) {
		return nil, fault.New(fault.Unavailable, "the mount at %s does not answer", r.Target.Host)
	}
	return at, nil
}

func isDevice(path string) bool {
	var x unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE, &x)
	return err == nil && uint32(x.Mode)&unix.S_IFMT == unix.S_IFBLK
}

// adoptable reports whether a mount of an earlier agent process is there as the journal has it.
func (s *Service) adoptable(r *row) (bool, error) {
	if r.BootID != s.bootID {
		return false, nil
	}
	at, err := mounts.At(r.Target.Host)
	if err != nil {
		return false, err
	}
	if r.device() && r.Seen == nil {
		return isDevice(r.Target.Host), nil
	}
	return at != nil && sameMount(r.Seen, at), nil
}
