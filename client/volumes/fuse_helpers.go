package volumes

import (
	"context"

	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// keepHelpers lets the processes that serve a FUSE mount outlive the plugin, and returns their scopes. It is best
// effort: without it the mount ends with the plugin and is published again.
func (s *Service) keepHelpers(ctx context.Context, p *csiplugins.Plugin, at *mounts.Entry) []string {
	if at == nil || !isFuse(at.FSType) {
		return nil
	}
	scopes, err := s.plugins.KeepHelpers(ctx, p, at)
	if err != nil {
		s.log.Warn("a mount will not outlive its plugin", "plugin_id", p.PluginID, "path", at.Point, "error", err)
	}
	return scopes
}

// endHelpers ends the processes of scopes whose mount was removed.
func (s *Service) endHelpers(scopes []string) { s.plugins.EndHelpers(scopes) }
