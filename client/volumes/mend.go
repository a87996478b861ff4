package volumes

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/client/mounthealth"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// mendStaging mounts the volume at its staging path again, where a stranger has unmounted it under those who use it, from the
// mount of one of them that lives and shows the same: a driver that believes it staged would publish the directory below, and
// cannot be told to unstage what is in use. It returns nil where there is no such mount; the volume is staged once more then.
// The caller holds the volume's turn.
func (s *Service) mendStaging(ctx context.Context, st *stage, users []*row) (*mounts.Entry, error) {
	for _, o := range users {
		if o.State != rowMounted || o.device() {
			continue
		}
		on, err := s.host.At(o.Target.Host)
		if err != nil {
			return nil, err
		}
		if on == nil || !on.Same(st.Seen) || on.Flags != st.Seen.Flags {
			continue
		}
		if h, _ := s.health.Prober().Usable(ctx, on); h != mounthealth.Healthy {
			continue
		}
		s.log.Warn("the staging of a volume was unmounted under its users: it is mounted again from one of them",
			"volume_id", o.VolumeID, "path", st.Path.Host, "alloc_id", o.AllocID)
		if err := s.host.MakeDir(st.Path.Host); err != nil {
			return nil, err
		}
		if err := s.host.Bind(o.Target.Host, st.Path.Host, on.Flags); err != nil {
			return nil, fmt.Errorf("mount the volume at %s again: %w", st.Path.Host, err)
		}
		return s.host.At(st.Path.Host)
	}
	return nil, nil
}
