package feasible

import "github.com/open-nomad/open-nomad/api"

func sourceOf(r *api.VolumeRequest, allocName string) string                { return r.Source }
func (vs *Volumes) claimable(n *api.Node, w want, a *api.Allocation) string { return "" }

// Take x.
func (a *VolumeAsk) Take(n *api.Node) {}
