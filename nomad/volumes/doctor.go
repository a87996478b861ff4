package volumes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/doctor"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

// findingsMax bounds the findings of one response.
const findingsMax = 5000

// Doctor reports what is wrong with one volume, or with all volumes that the caller sees. Without a volume it leaves out
// findings of severity info.
func (s *Service) Doctor(ctx context.Context, r *api.VolumeDoctorRequest) (*api.VolumeDoctorResponse, error) {
	ns := namespaceOf(r.Namespace)
	if r.ID != "" && ns == api.AllNamespaces {
		return nil, fault.New(fault.Invalid, "volume %q: a volume has one namespace: replace the namespace *", r.ID)
	}
	out := &api.VolumeDoctorResponse{}
	keys := tables(state.TableVolumes, state.TableClaims, state.TableAttachments, state.TableSnapshots, state.TableNodes, state.TableJobs, state.TableEvals)
	err := rpc.Block(ctx, s.state, &r.QueryOptions, &out.QueryMeta, keys, func(tx *state.Txn) error {
		out.Volumes, out.Findings, out.Omitted = 0, []*api.StorageFinding{}, 0
		e := s.newExamination(ctx, tx, ns)
		for v := range volumesOf(tx, ns, r.ID) {
			if !access.Sees(ctx, v.Namespace) {
				continue
			}
			out.Volumes++
			for _, f := range doctor.Volume(e.facts(v)) {
				if r.ID != "" || f.Severity != api.SeverityInfo {
					out.Findings = append(out.Findings, f)
				}
			}
		}
		doctor.Sort(out.Findings)
		out.Omitted = max(0, len(out.Findings)-findingsMax)
		out.Findings = out.Findings[:len(out.Findings)-out.Omitted]
		return nil
	})
	return out, err
}

// volumesOf lists one volume, or those of a namespace.
func volumesOf(tx *state.Txn, ns, id string) func(func(*api.Volume) bool) {
	if id == "" {
		return tx.Volumes(ns)
	}
	return func(yield func(*api.Volume) bool) {
		if v := tx.Volume(ns, id); v != nil {
			yield(v)
		}
	}
}

// examination collects the facts about volumes from one state.
type examination struct {
	tx  *state.Txn
	now int64
	// sees reports whether the caller sees a namespace. An external volume may be registered in several.
	sees    func(ns string) bool
	plugins map[string]*api.Plugin
	// waiting lists the groups that are not placed because of volumes, by namespace and volume as the job names it.
	waiting map[[2]string][]doctor.Waiting
}

func (s *Service) newExamination(ctx context.Context, tx *state.Txn, ns string) *examination {
	sees := func(ns string) bool { return access.Sees(ctx, ns) }
	e := &examination{tx: tx, now: s.now().UnixNano(), sees: sees, plugins: map[string]*api.Plugin{}, waiting: map[[2]string][]doctor.Waiting{}}
	for ev := range tx.Evals(ns) {
		if ev.Status == api.EvalStatusBlocked && len(ev.FailedTGAllocs) > 0 {
			e.addWaiting(ev)
		}
	}
	return e
}

// addWaiting adds the groups of a blocked evaluation that ask for volumes.
func (e *examination) addWaiting(ev *api.Evaluation) {
	j := e.tx.Job(ev.Namespace, ev.JobID)
	if j == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(ev.FailedTGAllocs)) {
		m := ev.FailedTGAllocs[name]
		i := slices.IndexFunc(j.TaskGroups, func(g *api.TaskGroup) bool { return g.Name == name })
		if m == nil || i < 0 {
			continue
		}
		for _, r := range j.TaskGroups[i].Volumes {
			if r == nil || r.Type != api.VolumeTypeCSI {
				continue
			}
			for _, reason := range slices.Sorted(maps.Keys(m.ConstraintFiltered)) {
				if strings.Contains(reason, "CSI") {
					key := [2]string{ev.Namespace, r.Source}
					e.waiting[key] = append(e.waiting[key], doctor.Waiting{JobID: j.ID, Group: name, Reason: reason, Since: ev.CreateTime})
				}
			}
		}
	}
}

func (e *examination) plugin(id string) *api.Plugin {
	p, known := e.plugins[id]
	if !known {
		p = pluginview.Of(e.tx, id)
		e.plugins[id] = p
	}
	return p
}

func (e *examination) facts(v *api.Volume) doctor.Facts {
	f := doctor.Facts{
		Now: e.now, Volume: v, Plugin: e.plugin(v.PluginID), Held: ledger.Held(e.tx, v.PluginID, v.RemoteID()),
		SecretsMissing: v.SecretsFrom != "" && e.tx.Variable(v.Namespace, v.SecretsFrom) == nil,
		Waiting:        e.waits(v),
	}
	if f.Plugin != nil {
		f.NeedsController = controllerRequired(v, f.Plugin)
		e.places(&f)
	}
	for _, c := range ledger.ClaimsOf(e.tx, v) {
		f.Claims = append(f.Claims, e.claim(c))
	}
	if v.Provision.ExternalID == "" && (v.Provision.State == api.VolumeCreating || v.Provision.State == api.VolumeFailed) {
		return f // the provider has nothing by its id
	}
	for a := range e.tx.AttachmentsOf(v.PluginID, v.RemoteID()) {
		f.Attachments = append(f.Attachments, e.attachment(a))
	}
	for a := range e.tx.WrittenOffOf(v.PluginID, v.RemoteID()) {
		f.Attachments = append(f.Attachments, e.attachment(a))
	}
	for n := range e.tx.NodesByStaleMount(v.PluginID, v.RemoteID()) {
		for _, m := range n.StaleMounts {
			if m.PluginID == v.PluginID && m.ExternalID == v.RemoteID() {
				found := *m
				if !e.sees(m.Namespace) {
					found.AllocID = ""
				}
				f.StaleMounts = append(f.StaleMounts, doctor.StaleMount{StaleMount: &found, Node: n, Remedy: staleStub(e.tx, n, m).Remedy})
			}
		}
	}
	f.Snapshots = underWay(e.tx, v.PluginID, v.RemoteID())
	return f
}

// waits lists the groups that are not placed for a reason that names the volume or its plugin.
func (e *examination) waits(v *api.Volume) (list []doctor.Waiting) {
	source, _, perAlloc := strings.Cut(v.ID, "[")
	for _, w := range e.waiting[[2]string{v.Namespace, v.ID}] {
		if strings.Contains(w.Reason, fmt.Sprintf("%q", v.ID)) || strings.Contains(w.Reason, "CSI plugin "+v.PluginID+" ") {
			list = append(list, w)
		}
	}
	if perAlloc {
		for _, w := range e.waiting[[2]string{v.Namespace, source}] {
			if strings.Contains(w.Reason, fmt.Sprintf("%q", v.ID)) {
				list = append(list, w)
			}
		}
	}
	return list
}

// places counts the nodes that the volume can be used on. One node with capacity decides, so it does not count all.
func (e *examination) places(f *doctor.Facts) {
	v := f.Volume
	for n := range e.tx.NodesByPlugin(v.PluginID) {
		i := n.CSINodePlugins[v.PluginID]
		if n.Status != api.NodeStatusReady || claim.Unserved(n, v.PluginID) != "" {
			continue
		}
		if i.NodeInfo != nil && !claim.Reaches(i.NodeInfo.AccessibleTopology, v.Provision.Topologies) {
			continue
		}
		f.Reachable++
		here := ledger.VolumesOn(e.tx, v.PluginID, n.ID)
		if here[v.RemoteID()] || claim.Full(n, v.PluginID, int64(len(here))) == "" {
			return
		}
		f.Full++
	}
}

func (e *examination) claim(c *api.VolumeClaim) doctor.Claim {
	out := doctor.Claim{
		VolumeClaim: c, Alloc: e.tx.Alloc(c.AllocID), Node: e.tx.Node(c.NodeID), Error: trouble(e.tx, c), Remedy: ledger.Remedy(e.tx, c),
		Waits: waitsFor(e.tx, c.Namespace, &api.VolumeClaimRequest{VolumeID: c.VolumeID, AllocID: c.AllocID, Use: c.Use}),
	}
	if c.State != api.ClaimWaiting {
		return out
	}
	for o := range e.tx.ClaimsByExternal(c.PluginID, c.ExternalID) {
		if o.AllocID != c.Predecessor {
			continue
		}
		if out.Remedy = ""; e.sees(o.Namespace) {
			out.Holder, out.Remedy = o, ledger.Remedy(e.tx, o)
		}
		break
	}
	return out
}

func (e *examination) attachment(a *api.VolumeAttachment) doctor.Attachment {
	out := doctor.Attachment{VolumeAttachment: a, Node: e.tx.Node(a.NodeID), Remedy: attachmentStub(e.tx, a, e.sees).Remedy}
	for c := range e.tx.ClaimsByExternal(a.PluginID, a.ExternalID) {
		if c.NodeID == a.NodeID && c.State != api.ClaimWaiting {
			out.Claims++
			if c.Mode == api.ClaimWrite {
				out.Writers++
			}
		}
	}
	return out
}

// Repair makes the safe repairs of a volume's findings. It never asserts anything: a node or a driver has to confirm
// what they do.
func (s *Service) Repair(ctx context.Context, r *api.VolumeRepairRequest) (*api.VolumeRepairResponse, error) {
	ns := namespaceOf(r.Namespace)
	tx := s.state.Read()
	v := tx.Volume(ns, r.ID)
	if v == nil {
		return nil, commands.Missing(ns, r.ID)
	}
	out := &api.VolumeRepairResponse{Findings: doctor.Volume(s.newExamination(ctx, tx, ns).facts(v)), WriteMeta: api.WriteMeta{Index: tx.Index()}}
	done := map[[2]string]bool{}
	for _, f := range out.Findings {
		key := [2]string{f.Repair}
		if f.Repair == api.RepairUnmount {
			key[1] = f.NodeID
		}
		if f.Repair == "" || done[key] {
			continue
		}
		done[key] = true
		repair, err := s.repair(ctx, v, f)
		if err != nil {
			repair.Error = err.Error()
		}
		out.Repairs = append(out.Repairs, repair)
	}
	out.Index = max(out.Index, s.state.Read().TableIndex(state.TableClaims, state.TableAttachments))
	return out, nil
}

func (s *Service) repair(ctx context.Context, v *api.Volume, f *api.StorageFinding) (*api.VolumeRepair, error) {
	out := &api.VolumeRepair{Repair: f.Repair, NodeID: f.NodeID, AllocID: f.AllocID}
	var err error
	switch f.Repair {
	case api.RepairUnmount:
		out.Text = fmt.Sprintf("node %s was asked to unmount the volume of allocations that have ended", f.NodeID)
		_, err = s.Detach(ctx, &api.VolumeDetachRequest{VolumeID: v.ID, NodeID: f.NodeID, WriteRequest: api.WriteRequest{Namespace: v.Namespace}})
		if errors.Is(err, fault.NotFound) {
			err = nil
		}
	case api.RepairReconcile:
		out.Text = "claims of allocations that have ended were released, and their nodes are asked to unmount"
		_, err = s.write(ctx, &commands.Reconcile{})
	default:
		out.NodeID, out.AllocID, out.Text = "", "", "the failed calls of the volume are made now"
		s.reconciler.Retry(v)
	}
	return out, err
}
