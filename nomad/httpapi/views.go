package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// viewJob is a job as clients read it: those of all types have an update block, which they look into.
func viewJob(j *api.Job) *api.Job {
	if j == nil || j.Update != nil {
		return j
	}
	v := *j
	v.Update = &api.UpdateStrategy{}
	return &v
}

// nodeView is a node with what this version has nothing to say of.
type nodeView struct {
	*api.Node
	Links                map[string]string
	IdentitySigningKeyID string
}

// poolView is a node pool with a hash of what it says.
type poolView struct {
	*api.NodePool
	NodeIdentityTTL time.Duration
	Hash            string
}

// identityTTL is how long identities of nodes live in pools that say nothing else.
const identityTTL = 24 * time.Hour

func viewPool(p *api.NodePool) any {
	said := *p
	said.CreateIndex, said.ModifyIndex = 0, 0
	v := poolView{p, p.NodeIdentityTTL, hashOf(said)}
	if v.NodeIdentityTTL == 0 {
		v.NodeIdentityTTL = identityTTL
	}
	return v
}

// namespaceView is a namespace with a hash of what it says.
type namespaceView struct {
	*api.Namespace
	Hash string
}

func viewNamespace(n *api.Namespace) any {
	said := *n
	said.CreateIndex, said.ModifyIndex = 0, 0
	return namespaceView{n, hashOf(said)}
}

// hashOf changes whenever what is shown changes.
func hashOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain data
	}
	sum := sha256.Sum256(text)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// planView is the answer of a plan: what would not be is null.
type planView struct {
	*api.JobPlanResponse
	FailedTGAllocs     map[string]*api.AllocationMetric
	NextPeriodicLaunch *time.Time
}

func viewPlan(p *api.JobPlanResponse) planView {
	v := planView{JobPlanResponse: p}
	if len(p.FailedTGAllocs) > 0 {
		v.FailedTGAllocs = p.FailedTGAllocs
	}
	if !p.NextPeriodicLaunch.IsZero() {
		v.NextPeriodicLaunch = &p.NextPeriodicLaunch
	}
	return v
}

// submissionView is the source of a job with the version that it is of.
type submissionView struct {
	*api.JobSubmission
	Namespace, JobID        string
	Version, JobModifyIndex uint64
}

// pluginView is a plugin with the jobs that run it, by namespace and id.
type pluginView struct {
	*api.Plugin
	ControllerJobs, NodeJobs map[string]map[string]pluginJob
}

type pluginJob struct {
	Namespace, ID string
	Expected      int
}

func viewPlugin(p *api.Plugin) pluginView {
	jobs := func(instances map[string]*api.CSIInfo, expected int) map[string]map[string]pluginJob {
		of := map[string]bool{}
		for _, i := range instances {
			of[i.AllocID] = true
		}
		all := map[string]map[string]pluginJob{}
		for _, a := range p.Allocations {
			if !of[a.ID] {
				continue
			}
			if all[a.Namespace] == nil {
				all[a.Namespace] = map[string]pluginJob{}
			}
			j := all[a.Namespace][a.JobID]
			all[a.Namespace][a.JobID] = pluginJob{a.Namespace, a.JobID, j.Expected + 1}
		}
		if len(all) != 1 {
			return all
		}
		for _, byID := range all {
			for id, j := range byID {
				if len(byID) == 1 { // it is the one that is meant by what is expected
					byID[id] = pluginJob{j.Namespace, j.ID, expected}
				}
			}
		}
		return all
	}
	return pluginView{p, jobs(p.Controllers, p.ControllersExpected), jobs(p.Nodes, p.NodesExpected)}
}

// hostStatsView is what a node uses, with no devices: this version measures none.
type hostStatsView struct {
	*api.HostStats
	DeviceStats []string
}

// providerMeta is beside the answers of a provider, which have no index.
type providerMeta struct {
	Index       uint64
	LastContact time.Duration
	KnownLeader bool
}

// readProvider sets the headers of a read that the provider answers.
func (c *call) readProvider() providerMeta {
	c.readRows(api.QueryMeta{})
	return providerMeta{}
}

type providerView struct {
	*api.VolumeListExternalResponse
	providerMeta
}

type snapshotsView struct {
	*api.SnapshotListResponse
	providerMeta
}
