package volumes

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/doctor"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

// Bounds of the calls of one report: at most probesMax nodes are called at a time, all within probesTime.
const (
	probesMax  = 32
	probesTime = 15 * time.Second
)

// PluginDoctor calls the instances of one CSI plugin, or of all, on their nodes and reports what is wrong with them.
func (s *Service) PluginDoctor(ctx context.Context, r *api.PluginDoctorRequest) (*api.PluginDoctorResponse, error) {
	tx := s.state.Read()
	out := &api.PluginDoctorResponse{QueryMeta: api.QueryMeta{Index: tx.TableIndex(state.TableNodes, state.TableJobs)}}
	wanted := []string{r.ID}
	if r.ID == "" {
		wanted = pluginview.IDs(tx)
	}
	var plugins []*api.Plugin
	calls := map[[2]string][]*api.PluginInstance{} // by node and plugin
	for _, id := range wanted {
		p := pluginview.Of(tx, id)
		if p == nil {
			continue
		}
		report := &api.PluginReport{ID: id, Instances: instancesOf(ctx, tx, p)}
		plugins, out.Reports = append(plugins, p), append(out.Reports, report)
		for _, i := range report.Instances {
			if i.NodeStatus == api.NodeStatusReady {
				calls[[2]string{i.NodeID, id}] = append(calls[[2]string{i.NodeID, id}], i)
			}
		}
	}
	s.probeAll(ctx, calls)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for i, p := range plugins {
		volumes := 0
		for range tx.VolumesByPlugin(p.ID) {
			volumes++
		}
		out.Findings = append(out.Findings, doctor.Plugin(doctor.PluginFacts{Plugin: p, Instances: out.Reports[i].Instances, Volumes: volumes})...)
	}
	doctor.Sort(out.Findings)
	out.Plugins = len(plugins)
	return out, nil
}

// instancesOf lists the instances of a plugin as nodes report them. Allocations in namespaces that the caller does not
// see are not named.
func instancesOf(ctx context.Context, tx *state.Txn, p *api.Plugin) (list []*api.PluginInstance) {
	for n := range tx.NodesByPlugin(p.ID) {
		add := func(kind string, i *api.CSIInfo) {
			at := &api.PluginInstance{
				NodeID: n.ID, NodeName: n.Name, NodeStatus: n.Status, Type: kind, Healthy: i.Healthy, HealthDescription: i.HealthDescription,
				Provider: i.Provider, Version: i.ProviderVersion, AllocID: i.AllocID,
			}
			if a := tx.Alloc(i.AllocID); a != nil {
				at.JobID, at.TaskState = a.JobID, doctor.TaskState(a)
			}
			list = append(list, at)
		}
		controller, node := p.Controllers[n.ID], p.Nodes[n.ID]
		switch {
		case controller != nil && node != nil && controller.AllocID == node.AllocID:
			both := *node
			if !controller.Healthy {
				both.Healthy, both.HealthDescription = false, controller.HealthDescription
			}
			add(api.CSIPluginTypeMonolith, &both)
			continue
		case controller != nil:
			add(api.CSIPluginTypeController, controller)
		}
		if node != nil {
			add(api.CSIPluginTypeNode, node)
		}
	}
	slices.SortStableFunc(list, func(a, b *api.PluginInstance) int {
		return cmp.Or(strings.Compare(a.NodeName, b.NodeName), strings.Compare(a.NodeID, b.NodeID), strings.Compare(a.Type, b.Type))
	})
	for _, i := range list {
		if a := tx.Alloc(i.AllocID); a == nil || !access.Sees(ctx, a.Namespace) {
			i.JobID, i.TaskState = "", ""
			if a != nil {
				i.AllocID = ""
			}
		}
	}
	return list
}

// probeAll calls the nodes and adds the replies to the instances.
func (s *Service) probeAll(ctx context.Context, calls map[[2]string][]*api.PluginInstance) {
	ctx, cancel := context.WithTimeout(ctx, probesTime)
	defer cancel()
	places := make(chan struct{}, probesMax)
	var all sync.WaitGroup
	for key, list := range calls {
		all.Go(func() {
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
			case <-ctx.Done():
				return
			}
			replies, err := s.reconciler.Probe(ctx, key[0], key[1])
			for _, i := range list {
				replied(i, replies, err)
			}
		})
	}
	all.Wait()
}

// replied adds to an instance what its node returned.
func replied(i *api.PluginInstance, replies []*api.PluginInstance, err error) {
	if err != nil {
		i.Error = "the node does not serve the call: " + err.Error()
		return
	}
	at := slices.IndexFunc(replies, func(o *api.PluginInstance) bool {
		return o != nil && (o.AllocID == i.AllocID || i.AllocID == "") && (o.Type == i.Type || o.Type == api.CSIPluginTypeMonolith)
	})
	if at < 0 {
		i.Asked, i.Error = true, "the node does not run the instance any more"
		return
	}
	o := replies[at]
	i.Asked, i.Ready, i.Error, i.Took = true, o.Ready, o.Error, o.Took
	if i.AllocID != "" {
		i.Socket = o.Socket
	} else if o.AllocID != "" { // the caller may not see the allocation, whose id is in paths
		i.Error = strings.ReplaceAll(o.Error, o.AllocID, "<allocation>")
	}
	i.Capabilities, i.ProviderNodeID = o.Capabilities, o.ProviderNodeID
	i.Provider, i.Version = cmp.Or(o.Provider, i.Provider), cmp.Or(o.Version, i.Version)
}
