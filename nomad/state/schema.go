package state

import (
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Table names.
const (
	TableNodes       = "nodes"
	TableJobs        = "jobs"
	TableVersions    = "job_versions"
	TableSubmissions = "job_submissions"
	TableSummaries   = "job_summaries"
	TableEvals       = "evals"
	TableAllocs      = "allocs"
	TableDeployments = "deployments"
	TableVolumes     = "volumes"
	TableClaims      = "claims"
	TableSnapshots   = "snapshots"
	TableAttachments = "attachments"
	TableNamespaces  = "namespaces"
	TableNodePools   = "node_pools"
	TableConfig      = "config"
	TableCluster     = "cluster"
	TableAutopilot   = "autopilot"
	TableScaling     = "scaling_events"
	TableLaunches    = "periodic_launches"
)

// appliedRow is the row of the index table that holds the last applied raft index.
const appliedRow = "_applied"

var indexes = table[indexRow]{name: "index"}

var (
	nodes = table[api.Node]{
		TableNodes,
		func(n *api.Node) []Key { return []Key{NodeKey(n.ID)} },
		func(n *api.Node) stamps { return stamps{&n.CreateIndex, &n.ModifyIndex} },
	}
	jobs = table[api.Job]{
		TableJobs,
		keysOfJob,
		func(j *api.Job) stamps { return stamps{&j.CreateIndex, &j.ModifyIndex} },
	}
	versions = table[api.Job]{
		TableVersions,
		func(j *api.Job) []Key { return []Key{{TableVersions, "job", rowKey(j.Namespace, j.ID)}} },
		nil,
	}
	submissions = table[submission]{name: TableSubmissions}
	summaries   = table[api.JobSummary]{
		TableSummaries,
		func(s *api.JobSummary) []Key { return []Key{{TableSummaries, "id", rowKey(s.Namespace, s.JobID)}} },
		func(s *api.JobSummary) stamps { return stamps{&s.CreateIndex, &s.ModifyIndex} },
	}
	evals = table[api.Evaluation]{
		TableEvals,
		func(e *api.Evaluation) []Key { return []Key{EvalKey(e.ID), JobEvalsKey(e.Namespace, e.JobID)} },
		func(e *api.Evaluation) stamps { return stamps{&e.CreateIndex, &e.ModifyIndex} },
	}
	allocs = table[api.Allocation]{
		TableAllocs,
		func(a *api.Allocation) []Key {
			return []Key{AllocKey(a.ID), NodeAllocsKey(a.NodeID), JobAllocsKey(a.Namespace, a.JobID), EvalAllocsKey(a.EvalID)}
		},
		func(a *api.Allocation) stamps { return stamps{&a.CreateIndex, &a.ModifyIndex} },
	}
	deployments = table[api.Deployment]{
		TableDeployments,
		func(d *api.Deployment) []Key {
			return []Key{DeploymentKey(d.ID), JobDeploymentsKey(d.Namespace, d.JobID)}
		},
		func(d *api.Deployment) stamps { return stamps{&d.CreateIndex, &d.ModifyIndex} },
	}
	volumes = table[api.Volume]{
		TableVolumes,
		func(v *api.Volume) []Key { return []Key{VolumeKey(v.Namespace, v.ID)} },
		func(v *api.Volume) stamps { return stamps{&v.CreateIndex, &v.ModifyIndex} },
	}
	claims = table[api.VolumeClaim]{
		TableClaims,
		func(c *api.VolumeClaim) []Key {
			return []Key{VolumeClaimsKey(c.Namespace, c.VolumeID), NodeClaimsKey(c.NodeID), AllocClaimsKey(c.AllocID)}
		},
		func(c *api.VolumeClaim) stamps { return stamps{&c.CreateIndex, &c.ModifyIndex} },
	}
	attachments = table[api.VolumeAttachment]{
		TableAttachments,
		func(a *api.VolumeAttachment) []Key {
			return []Key{AttachmentsKey(a.PluginID, a.ExternalID), NodeAttachmentsKey(a.NodeID)}
		},
		func(a *api.VolumeAttachment) stamps { return stamps{&a.CreateIndex, &a.ModifyIndex} },
	}
	snapshots = table[api.SnapshotIntent]{
		TableSnapshots,
		func(i *api.SnapshotIntent) []Key { return []Key{SnapshotKey(i.PluginID, i.Name, i.Delete)} },
		func(i *api.SnapshotIntent) stamps { return stamps{&i.CreateIndex, &i.ModifyIndex} },
	}
	namespaces = table[api.Namespace]{
		TableNamespaces,
		func(n *api.Namespace) []Key { return []Key{{TableNamespaces, "id", n.Name}} },
		func(n *api.Namespace) stamps { return stamps{&n.CreateIndex, &n.ModifyIndex} },
	}
	nodePools = table[api.NodePool]{
		TableNodePools,
		func(p *api.NodePool) []Key { return []Key{{TableNodePools, "id", p.Name}} },
		func(p *api.NodePool) stamps { return stamps{&p.CreateIndex, &p.ModifyIndex} },
	}
	schedulerConfigs = table[api.SchedulerConfiguration]{
		TableConfig, nil,
		func(c *api.SchedulerConfiguration) stamps { return stamps{&c.CreateIndex, &c.ModifyIndex} },
	}
	clusters         = table[clusterRow]{name: TableCluster}
	autopilotConfigs = table[api.AutopilotConfiguration]{
		TableAutopilot, nil,
		func(c *api.AutopilotConfiguration) stamps { return stamps{&c.CreateIndex, &c.ModifyIndex} },
	}
	scalings = table[api.JobScalingEvents]{
		TableScaling,
		func(e *api.JobScalingEvents) []Key { return []Key{JobScalingKey(e.Namespace, e.JobID)} },
		nil,
	}
	launches = table[launch]{name: TableLaunches}
)

// tables maps names to tables, for watches and snapshots.
var tables = func() map[string]untyped {
	m := map[string]untyped{}
	for _, t := range []untyped{
		nodes, jobs, versions, submissions, summaries, evals, allocs, deployments,
		volumes, claims, attachments, snapshots, namespaces, nodePools, schedulerConfigs, clusters, autopilotConfigs,
		scalings, launches,
	} {
		m[t.tableName()] = t
	}
	return m
}()

func schema() []*layout {
	return []*layout{
		tableOf("index", unique(func(r *indexRow) []string { return []string{r.Table} })),
		tableOf(TableNodes, unique(func(n *api.Node) []string { return []string{n.ID} }), byEach("plugin", pluginsOfNode)),
		tableOf(TableJobs, unique(jobID), byEach("plugin", pluginsOfJob), byEach("policy", policiesOfJob),
			by("parent", parentOfJob), by("token", tokenOfJob)),
		tableOf(TableVersions, unique(func(j *api.Job) []string { return append(jobID(j), versionKey(j.Version)) }), by("job", jobID)),
		tableOf(TableSubmissions, unique(func(s *submission) []string { return []string{s.Namespace, s.JobID, versionKey(s.Version)} }),
			by("job", func(s *submission) []string { return []string{s.Namespace, s.JobID} })),
		tableOf(TableSummaries, unique(func(s *api.JobSummary) []string { return []string{s.Namespace, s.JobID} })),
		tableOf(TableEvals, unique(func(e *api.Evaluation) []string { return []string{e.ID} }),
			by("job", func(e *api.Evaluation) []string { return []string{e.Namespace, e.JobID} })),
		tableOf(TableAllocs, unique(func(a *api.Allocation) []string { return []string{a.ID} }),
			by("node", func(a *api.Allocation) []string { return []string{a.NodeID} }),
			by("eval", func(a *api.Allocation) []string { return []string{a.EvalID} }),
			by("job", func(a *api.Allocation) []string { return []string{a.Namespace, a.JobID} })),
		tableOf(TableDeployments, unique(func(d *api.Deployment) []string { return []string{d.ID} }),
			by("job", func(d *api.Deployment) []string { return []string{d.Namespace, d.JobID} })),
		tableOf(TableVolumes, unique(func(v *api.Volume) []string { return []string{v.Namespace, v.ID} }),
			by("plugin", func(v *api.Volume) []string { return []string{v.PluginID} })),
		tableOf(TableClaims, unique(func(c *api.VolumeClaim) []string { return []string{c.Namespace, c.VolumeID, c.AllocID} }),
			by("volume", func(c *api.VolumeClaim) []string { return []string{c.Namespace, c.VolumeID} }),
			by("node", func(c *api.VolumeClaim) []string { return []string{c.NodeID} }),
			by("external", func(c *api.VolumeClaim) []string { return []string{c.PluginID, c.ExternalID} }),
			by("alloc", func(c *api.VolumeClaim) []string { return []string{c.AllocID} })),
		tableOf(TableAttachments, unique(func(a *api.VolumeAttachment) []string { return []string{a.PluginID, a.ExternalID, a.NodeID} }),
			by("volume", func(a *api.VolumeAttachment) []string { return []string{a.PluginID, a.ExternalID} }),
			by("node", func(a *api.VolumeAttachment) []string { return []string{a.NodeID} })),
		tableOf(TableSnapshots, unique(func(i *api.SnapshotIntent) []string {
			return []string{i.PluginID, i.Name, deed(i.Delete)}
		})),
		tableOf(TableNamespaces, unique(func(n *api.Namespace) []string { return []string{n.Name} })),
		tableOf(TableNodePools, unique(func(p *api.NodePool) []string { return []string{p.Name} })),
		tableOf(TableConfig, unique(func(*api.SchedulerConfiguration) []string { return []string{"scheduler"} })),
		tableOf(TableCluster, unique(func(*clusterRow) []string { return []string{"cluster"} })),
		tableOf(TableScaling, unique(func(e *api.JobScalingEvents) []string { return []string{e.Namespace, e.JobID} })),
		tableOf(TableLaunches, unique(func(l *launch) []string { return []string{l.Namespace, l.JobID} })),
		tableOf(TableAutopilot, unique(func(*api.AutopilotConfiguration) []string { return []string{"autopilot"} })),
	}
}

// rowKey joins the parts of a key; splitRowKey takes them apart for an index look-up.
func rowKey(parts ...string) string { return strings.Join(parts, "\x00") }

func splitRowKey(key string) []string { return strings.Split(key, "\x00") }

// versionKey sorts as the number does.
func versionKey(v uint64) string {
	s := strconv.FormatUint(v, 10)
	return strings.Repeat("0", 20-len(s)) + s
}
