package doctor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/doctor"
)

const now = int64(1_000_000 * time.Second)

var (
	ready = &api.Node{ID: "n1", Name: "one", Status: api.NodeStatusReady}
	down  = &api.Node{ID: "n1", Name: "one", Status: api.NodeStatusDown}
	runs  = &api.Allocation{ID: "a1", ClientStatus: "running", DesiredStatus: "run", TaskStates: map[string]*api.TaskState{"web": {State: "running"}}}
	ended = &api.Allocation{ID: "a1", ClientStatus: "complete", DesiredStatus: "stop"}
	stops = &api.Allocation{ID: "a1", ClientStatus: "running", DesiredStatus: "stop"}
)

// healthy is a volume that nothing uses and that can be placed.
func healthy() doctor.Facts {
	return doctor.Facts{
		Now:    now,
		Volume: &api.Volume{VolumeSpec: api.VolumeSpec{ID: "v", Namespace: "default", PluginID: "p"}, Provision: api.VolumeProvision{State: api.VolumeAvailable}},
		Plugin: &api.Plugin{ID: "p", NodesHealthy: 2, NodesExpected: 2, ControllersHealthy: 1, ControllersExpected: 1}, NeedsController: true, Reachable: 1,
	}
}

func claim(state api.ClaimState, node *api.Node, a *api.Allocation, change ...func(*doctor.Claim)) func(*doctor.Facts) {
	return func(f *doctor.Facts) {
		c := doctor.Claim{
			VolumeClaim: &api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: "a1", JobID: "web", NodeID: "n1", Mode: api.ClaimWrite, State: state, Since: now - int64(time.Second)},
			Alloc:       a, Node: node, Waits: "it waits", Remedy: "remedy",
		}
		for _, fn := range change {
			fn(&c)
		}
		f.Claims = append(f.Claims, c)
	}
}

func attachment(state api.AttachmentState, change ...func(*doctor.Attachment)) func(*doctor.Facts) {
	return func(f *doctor.Facts) {
		a := doctor.Attachment{VolumeAttachment: &api.VolumeAttachment{NodeID: "n1", State: state, Since: now - int64(time.Second)}, Node: ready, Claims: 1, Remedy: "remedy"}
		for _, fn := range change {
			fn(&a)
		}
		f.Attachments = append(f.Attachments, a)
	}
}

func TestEachStateOfAVolumeHasItsFinding(t *testing.T) {
	failing := func(a *doctor.Attachment) { a.LastError, a.Attempts = "the array is full", 3 }
	provision := func(change func(*api.VolumeProvision)) func(*doctor.Facts) {
		return func(f *doctor.Facts) { change(&f.Volume.Provision) }
	}
	for name, c := range map[string]struct {
		change func(*doctor.Facts)
		// want is severity, kind, command and repair of the first finding; "" means that there is none.
		want, text string
	}{
		"healthy":        {func(*doctor.Facts) {}, "", ""},
		"in use":         {claim(api.ClaimReady, ready, runs), "info in-use  ", "reads and writes"},
		"held":           {func(f *doctor.Facts) { f.Held = "nodes have not reported" }, "error restore-hold  ", "not reported"},
		"waiting":        {claim(api.ClaimWaiting, ready, runs, func(c *doctor.Claim) { c.Holder = &api.VolumeClaim{AllocID: "a0", JobID: "db", NodeID: "n0"} }), "error claim-waits remedy ", "allocation a0 of job \"db\" on node n0 holds"},
		"taken":          {claim(api.ClaimTaken, ready, runs), "info claim-waits  retry", "not attached yet"},
		"taken for long": {claim(api.ClaimTaken, ready, runs, func(c *doctor.Claim) { c.Since = now - int64(time.Hour) }), "warning claim-waits  retry", ""},
		"taken, fails":   {claim(api.ClaimTaken, ready, runs, func(c *doctor.Claim) { c.Error = "no" }), "error claim-waits  retry", ""},
		"mount fails":    {claim(api.ClaimReady, ready, runs, func(c *doctor.Claim) { c.LastError = "bad option" }), "error mount-failing nomad alloc status a1 ", "bad option"},
		"node lost":      {claim(api.ClaimReleasing, down, runs, func(c *doctor.Claim) { c.LastError = "the lease ends" }), "error node-lost remedy ", "node n1 (one, down)"},
		"node purged":    {claim(api.ClaimReleasing, nil, runs), "error node-lost remedy ", "does not exist any more"},
		"ready, lost":    {claim(api.ClaimReady, down, runs), "error node-lost remedy ", ""},
		"stopping":       {claim(api.ClaimReleasing, ready, stops), "info stopping remedy ", ""},
		"unmount":        {claim(api.ClaimReleasing, ready, ended), "info unmount-pending remedy unmount", ""},
		"unmount fails":  {claim(api.ClaimReleasing, ready, ended, func(c *doctor.Claim) { c.LastError = "busy" }), "error unmount-failing remedy unmount", "busy"},
		"forgotten":      {claim(api.ClaimReady, ready, ended), "error claim-forgotten nomad volume doctor -fix v reconcile", ""},
		"unmounted":      {claim(api.ClaimUnmounted, ready, ended), "info claim-unmounted remedy ", ""},
		"mount dead": {claim(api.ClaimReady, ready, &api.Allocation{ID: "a1", ClientStatus: "running", DesiredStatus: "run", TaskStates: map[string]*api.TaskState{"web": {Events: []*api.TaskEvent{
			{Type: "Volume Healthy", Time: 1, DisplayMessage: "the mount of volume v at /x answers again"},
			{Type: "Volume Unhealthy", Time: 2, DisplayMessage: "the mount of volume v at /x is dead"},
			{Type: "Volume Unhealthy", Time: 3, DisplayMessage: "the mount of volume other at /x is dead"},
		}}}}), "error mount-unhealthy nomad alloc restart a1 ", "is dead"},
		"attaching":      {attachment(api.AttachmentPublishing), "info attach-pending remedy retry", ""},
		"attach fails":   {attachment(api.AttachmentPublishing, failing), "error attach-failing remedy retry", "(3 tries): the array is full"},
		"attach refused": {attachment(api.AttachmentPublishing, failing, func(a *doctor.Attachment) { a.Refused = 1 }), "error attach-refused remedy ", "refuses"},
		"attached":       {attachment(api.AttachmentPublished), "", ""},
		"without claim":  {attachment(api.AttachmentPublished, func(a *doctor.Attachment) { a.Claims = 0 }), "error attachment-without-claim remedy reconcile", ""},
		"read-only":      {attachment(api.AttachmentPublished, func(a *doctor.Attachment) { a.ReadOnly, a.Writers = true, 1 }), "error attached-read-only remedy ", ""},
		"detach fails":   {attachment(api.AttachmentUnpublishing, failing), "error detach-failing remedy retry", "the array is full"},
		"written off":    {attachment(api.AttachmentWrittenOff, failing), "warning written-off remedy retry", "by force"},
		"stale mount": {func(f *doctor.Facts) {
			f.StaleMounts = []doctor.StaleMount{{StaleMount: &api.StaleMount{AllocID: "a9", LastError: "busy"}, Node: down, Remedy: "remedy"}}
		}, "warning stale-mount remedy ", "busy"},
		"snapshot fails": {func(f *doctor.Facts) {
			f.Snapshots = []*api.SnapshotUnderWay{{Name: "s", State: "being made", LastError: "quota", Remedy: "remedy"}}
		}, "error snapshot-failing remedy retry", "quota"},
		"creating":      {provision(func(p *api.VolumeProvision) { p.State = api.VolumeCreating }), "info operation-running  retry", ""},
		"create fails":  {provision(func(p *api.VolumeProvision) { p.State, p.LastError = api.VolumeCreating, "quota" }), "error operation-failing nomad volume delete v retry", "quota"},
		"expand fails":  {provision(func(p *api.VolumeProvision) { p.State, p.LastError = api.VolumeExpanding, "quota" }), "error operation-failing nomad volume deregister -force v retry", "quota"},
		"failed":        {provision(func(p *api.VolumeProvision) { p.State, p.LastError = api.VolumeFailed, "quota" }), "error create-failed nomad volume delete v ", "quota"},
		"last error":    {provision(func(p *api.VolumeProvision) { p.LastError = "quota" }), "warning operation-failed  ", "quota"},
		"not validated": {provision(func(p *api.VolumeProvision) { p.NotValidated = "no call" }), "info not-validated  ", ""},
		"node owes":     {provision(func(p *api.VolumeProvision) { p.NodeExpansion = []string{"n1"} }), "info expansion-pending  retry", "n1"},
		"not grown":     {provision(func(p *api.VolumeProvision) { p.NotGrown = true }), "warning file-system-not-grown  ", ""},
		"too small":     {func(f *doctor.Facts) { f.Volume.RequestedCapacityMin, f.Volume.Provision.CapacityBytes = 2, 1 }, "warning too-small  ", "1 bytes"},
		"no plugin":     {func(f *doctor.Facts) { f.Plugin = nil }, "error plugin-missing nomad plugin status ", ""},
		"no node plugin": {func(f *doctor.Facts) {
			f.Plugin.NodesHealthy, f.Plugin.Nodes = 0, map[string]*api.CSIInfo{"n2": {HealthDescription: "no socket"}}
		}, "error plugin-unhealthy nomad plugin doctor p ", "node n2: no socket"},
		"one node plugin":  {func(f *doctor.Facts) { f.Plugin.NodesHealthy = 1 }, "warning plugin-degraded nomad plugin doctor p ", "1 of 2"},
		"no controller":    {func(f *doctor.Facts) { f.Plugin.ControllersHealthy = 0 }, "error controller-unhealthy nomad plugin doctor p ", ""},
		"needs none":       {func(f *doctor.Facts) { f.Plugin.ControllersHealthy, f.NeedsController = 0, false }, "", ""},
		"topology":         {func(f *doctor.Facts) { f.Reachable = 0 }, "error topology nomad plugin status -verbose p ", ""},
		"nodes full":       {func(f *doctor.Facts) { f.Full = 1 }, "warning nodes-full nomad volume attachments -plugin p ", ""},
		"secrets":          {func(f *doctor.Facts) { f.SecretsMissing, f.Volume.SecretsFrom = true, "a/b" }, "error secrets-missing nomad var put a/b KEY=VALUE ", `variable "a/b"`},
		"job waits":        {func(f *doctor.Facts) { f.Waiting = []doctor.Waiting{{JobID: "web", Group: "g", Reason: "held"}} }, "error job-waits nomad job status web ", "held"},
		"other namespaces": {func(f *doctor.Facts) { f.Volume.Namespace = "x y"; claim(api.ClaimReady, ready, ended)(f) }, "error claim-forgotten nomad volume doctor -fix -namespace 'x y' v reconcile", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			c.change(&f)
			all := doctor.Volume(f)
			got, text := "", ""
			if len(all) > 0 {
				got, text = strings.Join([]string{all[0].Severity, all[0].Kind, all[0].Command, all[0].Repair}, " "), all[0].Text
				if all[0].VolumeID != "v" || all[0].PluginID != "p" || all[0].Severity != api.SeverityInfo && all[0].Next == "" {
					t.Errorf("incomplete: %+v", all[0])
				}
			}
			if got != c.want || !strings.Contains(text, c.text) {
				t.Errorf("got %q: %s", got, text)
			}
		})
	}
}

func TestFindingsAreSortedBySeverity(t *testing.T) {
	f := healthy()
	claim(api.ClaimReady, ready, runs)(&f)
	f.Plugin.NodesHealthy, f.Held = 1, "held"
	var kinds []string
	for _, found := range doctor.Volume(f) {
		kinds = append(kinds, found.Kind)
	}
	if !slices.Equal(kinds, []string{"restore-hold", "plugin-degraded", "in-use"}) {
		t.Errorf("got %v", kinds)
	}
}
