package csiplugins

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi"
)

// unhealthyPause is how often an unhealthy plugin is probed.
const unhealthyPause = 2 * time.Second

// ask probes the instance's health and capabilities. It requests everything again each time, because a restarted
// plugin may have another configuration.
func (g *registry) ask(ctx context.Context, p *Plugin) finding {
	ready, err := p.client.Probe(ctx)
	if err != nil {
		return finding{err: err}
	}
	if !ready {
		return finding{starting: true}
	}
	info, err := p.client.PluginInfo(ctx)
	if err != nil {
		return finding{err: err}
	}
	caps, err := p.client.Fingerprint(ctx, csi.Services{
		Controller: p.serves(api.CSIPluginTypeController), Node: p.serves(api.CSIPluginTypeNode),
	})
	return finding{info: info, caps: caps, err: err}
}

// attend watches a plugin of an earlier agent process until its task's supervisor takes over.
func (g *registry) attend(ctx context.Context, p *Plugin) {
	for {
		select {
		case <-p.taken:
			return
		case <-p.gone:
			return
		default:
		}
		f := g.ask(ctx, p)
		if ctx.Err() != nil {
			return
		}
		g.note(p, f)
		wait := g.conf.HealthInterval
		if f.err != nil || f.starting {
			wait = min(wait, unhealthyPause)
		}
		timer := time.NewTimer(wait)
		select {
		case <-p.taken:
		case <-p.gone:
		case <-p.probe:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}
