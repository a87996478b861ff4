package state

import (
	"strconv"
	"strings"

	"github.com/hashicorp/go-memdb"

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
	TableTimelines   = "volume_timelines"
	TableNamespaces  = "namespaces"
	TableNodePools   = "node_pools"
	TableConfig      = "config"
	TableCluster     = "cluster"
	TableAutopilot   = "autopilot"
	TableScaling     = "scaling_events"
	TableLaunches    = "periodic_launches"
	TableRootKeys    = "root_keys"

	TableACLTokens        = "acl_tokens"
	TableACLPolicies      = "acl_policies"
	TableACLRoles         = "acl_roles"
	TableACLAuthMethods   = "acl_auth_methods"
	TableACLBindingRules  = "acl_binding_rules"
	TableACLOneTimeTokens = "acl_one_time_tokens" //nolint:gosec // a name, not a secret
	TableACLBootstrap     = "acl_bootstrap"
	TableQuotas           = "quotas"
	TableVariables        = "variables"
	TableServices         = "services"
	TableHostVolumes      = "host_volumes"
	TableHostVolumeClaims = "host_volume_claims"
)

var (
	nodes = tableOf(
		TableNodes, func(n *api.Node) stamps { return stamps{&n.CreateIndex, &n.ModifyIndex} },
		unique(func(n *api.Node) string { return n.ID }), byEach("plugin", pluginsOfNode), byEach("controller", controllersOfNode),
		byEach("stale", staleOnNode),
	)
	jobs = tableOf(
		TableJobs, func(j *api.Job) stamps { return stamps{&j.CreateIndex, &j.ModifyIndex} },
		unique(jobID), byEach("plugin", pluginsOfJob), byEach("policy", policiesOfJob),
		byEach("parent", parentOfJob), byEach("token", tokenOfJob),
	)
	versions = tableOf[api.Job](
		TableVersions, nil,
		unique(func(j *api.Job) string { return rowKey(j.Namespace, j.ID, versionKey(j.Version)) }), by("job", jobID),
	)
	submissions = tableOf[submission](
		TableSubmissions, nil,
		unique(func(s *submission) string { return rowKey(s.Namespace, s.JobID, versionKey(s.Version)) }),
		by("job", func(s *submission) string { return rowKey(s.Namespace, s.JobID) }),
	)
	summaries = tableOf(
		TableSummaries, func(s *api.JobSummary) stamps { return stamps{&s.CreateIndex, &s.ModifyIndex} },
		unique(func(s *api.JobSummary) string { return rowKey(s.Namespace, s.JobID) }),
	)
	evals = tableOf(
		TableEvals, func(e *api.Evaluation) stamps { return stamps{&e.CreateIndex, &e.ModifyIndex} },
		unique(func(e *api.Evaluation) string { return e.ID }),
		by("job", func(e *api.Evaluation) string { return rowKey(e.Namespace, e.JobID) }),
		by("namespace", func(e *api.Evaluation) string { return e.Namespace }),
	)
	allocs = tableOf(
		TableAllocs, func(a *api.Allocation) stamps { return stamps{&a.CreateIndex, &a.ModifyIndex} },
		unique(func(a *api.Allocation) string { return a.ID }),
		by("node", func(a *api.Allocation) string { return a.NodeID }),
		by("eval", func(a *api.Allocation) string { return a.EvalID }),
		by("job", func(a *api.Allocation) string { return rowKey(a.Namespace, a.JobID) }),
		by("namespace", func(a *api.Allocation) string { return a.Namespace }),
	)
	deployments = tableOf(
		TableDeployments, func(d *api.Deployment) stamps { return stamps{&d.CreateIndex, &d.ModifyIndex} },
		unique(func(d *api.Deployment) string { return d.ID }),
		by("job", func(d *api.Deployment) string { return rowKey(d.Namespace, d.JobID) }),
		by("namespace", func(d *api.Deployment) string { return d.Namespace }),
	)
	volumes = tableOf(
		TableVolumes, func(v *api.Volume) stamps { return stamps{&v.CreateIndex, &v.ModifyIndex} },
		unique(func(v *api.Volume) string { return rowKey(v.Namespace, v.ID) }),
		by("plugin", func(v *api.Volume) string { return v.PluginID }), byEach("external", externalOfVolume),
	)
	claims = tableOf(
		TableClaims, func(c *api.VolumeClaim) stamps { return stamps{&c.CreateIndex, &c.ModifyIndex} },
		unique(func(c *api.VolumeClaim) string { return rowKey(c.Namespace, c.VolumeID, c.AllocID, c.Use) }),
		by("volume", func(c *api.VolumeClaim) string { return rowKey(c.Namespace, c.VolumeID) }),
		by("node", func(c *api.VolumeClaim) string { return c.NodeID }),
		by("external", func(c *api.VolumeClaim) string { return rowKey(c.PluginID, c.ExternalID) }),
		by("alloc", func(c *api.VolumeClaim) string { return c.AllocID }),
	)
	attachments = tableOf(
		TableAttachments, func(a *api.VolumeAttachment) stamps { return stamps{&a.CreateIndex, &a.ModifyIndex} },
		unique(func(a *api.VolumeAttachment) string { return rowKey(a.PluginID, a.ExternalID, a.NodeID) }),
		by("volume", func(a *api.VolumeAttachment) string { return rowKey(a.PluginID, a.ExternalID) }),
		by("node", func(a *api.VolumeAttachment) string { return a.NodeID }),
	)
	snapshots = tableOf(
		TableSnapshots, func(i *api.SnapshotIntent) stamps { return stamps{&i.CreateIndex, &i.ModifyIndex} },
		unique(func(i *api.SnapshotIntent) string { return rowKey(i.PluginID, i.Name, intentKind(i.Delete)) }),
	)
	timelines = tableOf[api.VolumeTimeline](
		TableTimelines, nil, unique(func(l *api.VolumeTimeline) string { return rowKey(l.Namespace, l.VolumeID) }),
	)
	namespaces = tableOf(
		TableNamespaces, func(n *api.Namespace) stamps { return stamps{&n.CreateIndex, &n.ModifyIndex} },
		unique(func(n *api.Namespace) string { return n.Name }),
	)
	nodePools = tableOf(
		TableNodePools, func(p *api.NodePool) stamps { return stamps{&p.CreateIndex, &p.ModifyIndex} },
		unique(func(p *api.NodePool) string { return p.Name }),
	)
	schedulerConfigs = tableOf(
		TableConfig, func(c *api.SchedulerConfiguration) stamps { return stamps{&c.CreateIndex, &c.ModifyIndex} },
		unique(func(*api.SchedulerConfiguration) string { return "scheduler" }),
	)
	autopilotConfigs = tableOf(
		TableAutopilot, func(c *api.AutopilotConfiguration) stamps { return stamps{&c.CreateIndex, &c.ModifyIndex} },
		unique(func(*api.AutopilotConfiguration) string { return "autopilot" }),
	)
	clusters = tableOf[clusterRow](TableCluster, nil, unique(func(*clusterRow) string { return "cluster" }))
	scalings = tableOf[api.JobScalingEvents](
		TableScaling, nil, unique(func(e *api.JobScalingEvents) string { return rowKey(e.Namespace, e.JobID) }),
		by("job", func(e *api.JobScalingEvents) string { return rowKey(e.Namespace, e.JobID) }),
	)
	rootKeys = tableOf(
		TableRootKeys, func(k *api.RootKey) stamps { return stamps{&k.CreateIndex, &k.ModifyIndex} },
		unique(func(k *api.RootKey) string { return k.KeyID }),
	)
	aclTokens = tableOf(
		TableACLTokens, func(t *api.ACLToken) stamps { return stamps{&t.CreateIndex, &t.ModifyIndex} },
		unique(func(t *api.ACLToken) string { return t.AccessorID }), by("secret", TokenHash),
	)
	aclPolicies = tableOf(
		TableACLPolicies, func(p *api.ACLPolicy) stamps { return stamps{&p.CreateIndex, &p.ModifyIndex} },
		unique(func(p *api.ACLPolicy) string { return p.Name }), byEach("job", jobOfPolicy),
	)
	aclRoles = tableOf(
		TableACLRoles, func(r *api.ACLRole) stamps { return stamps{&r.CreateIndex, &r.ModifyIndex} },
		unique(func(r *api.ACLRole) string { return r.ID }), by("name", func(r *api.ACLRole) string { return r.Name }),
	)
	aclAuthMethods = tableOf(
		TableACLAuthMethods, func(m *api.ACLAuthMethod) stamps { return stamps{&m.CreateIndex, &m.ModifyIndex} },
		unique(func(m *api.ACLAuthMethod) string { return m.Name }),
	)
	aclBindingRules = tableOf(
		TableACLBindingRules, func(r *api.ACLBindingRule) stamps { return stamps{&r.CreateIndex, &r.ModifyIndex} },
		unique(func(r *api.ACLBindingRule) string { return r.ID }), by("method", func(r *api.ACLBindingRule) string { return r.AuthMethod }),
	)
	oneTimeTokens = tableOf(
		TableACLOneTimeTokens, func(t *api.OneTimeToken) stamps { return stamps{&t.CreateIndex, &t.ModifyIndex} },
		unique(func(t *api.OneTimeToken) string { return t.OneTimeSecretID }),
	)
	aclBootstraps = tableOf[api.ACLBootstrap](TableACLBootstrap, nil, unique(func(*api.ACLBootstrap) string { return "bootstrap" }))
	quotas        = tableOf(
		TableQuotas, func(q *api.QuotaSpec) stamps { return stamps{&q.CreateIndex, &q.ModifyIndex} },
		unique(func(q *api.QuotaSpec) string { return q.Name }),
	)
	variables = tableOf(
		TableVariables, func(v *api.VariableRow) stamps { return stamps{&v.CreateIndex, &v.ModifyIndex} }, unique(func(v *api.VariableRow) string { return rowKey(v.Namespace, v.Path) }),
		by("key", func(v *api.VariableRow) string { return v.KeyID }), byEach("locked", lockedVariables),
	).stampedByCommands()
	services = tableOf(
		TableServices, func(s *api.ServiceRegistration) stamps { return stamps{&s.CreateIndex, &s.ModifyIndex} },
		unique(func(s *api.ServiceRegistration) string { return s.ID }),
		by("service", func(s *api.ServiceRegistration) string { return rowKey(s.Namespace, s.ServiceName) }),
		by("job", func(s *api.ServiceRegistration) string { return rowKey(s.Namespace, s.JobID) }),
		by("alloc", func(s *api.ServiceRegistration) string { return s.AllocID }),
	)
	hostVolumes = tableOf(
		TableHostVolumes, func(v *api.HostVolume) stamps { return stamps{&v.CreateIndex, &v.ModifyIndex} },
		unique(func(v *api.HostVolume) string { return rowKey(v.Namespace, v.ID) }),
		by("node", func(v *api.HostVolume) string { return v.NodeID }),
	)
	hostVolumeClaims = tableOf(
		TableHostVolumeClaims, func(c *api.HostVolumeClaim) stamps { return stamps{&c.CreateIndex, &c.ModifyIndex} },
		unique(func(c *api.HostVolumeClaim) string { return rowKey(c.Namespace, c.ID) }),
		by("job", func(c *api.HostVolumeClaim) string { return rowKey(c.Namespace, c.JobID) }),
		by("volume", func(c *api.HostVolumeClaim) string { return rowKey(c.Namespace, c.VolumeID) }),
	)
	launches = tableOf[launch](TableLaunches, nil, unique(func(l *launch) string { return rowKey(l.Namespace, l.JobID) }))
)

// tables maps names to tables; schema is the schema that memdb has of them.
var tables, schema = func() (map[string]*layout, *memdb.DBSchema) {
	m, s := map[string]*layout{}, &memdb.DBSchema{Tables: map[string]*memdb.TableSchema{pageTable: pageSchema}}
	for _, l := range []*layout{jobs.layout, versions.layout, summaries.layout, evals.layout, allocs.layout, deployments.layout, services.layout} {
		l.paged = true
	}
	for n, l := range []*layout{
		nodes.layout, jobs.layout, versions.layout, submissions.layout, summaries.layout, evals.layout, allocs.layout,
		deployments.layout, volumes.layout, claims.layout, attachments.layout, snapshots.layout, namespaces.layout,
		nodePools.layout, schedulerConfigs.layout, clusters.layout, autopilotConfigs.layout, scalings.layout, launches.layout,
		rootKeys.layout, aclTokens.layout, aclPolicies.layout, aclRoles.layout, aclAuthMethods.layout, aclBindingRules.layout,
		oneTimeTokens.layout, aclBootstraps.layout, quotas.layout, variables.layout, services.layout, timelines.layout, hostVolumes.layout, hostVolumeClaims.layout,
	} {
		m[l.name], l.number = l, n
		for _, i := range l.indexes {
			i.prefix, i.page = i.name+"_prefix", pageOf{[]byte(l.name + " " + i.name), []any{i}}
		}
		if !l.paged {
			s.Tables[l.name] = schemaOf(l)
		}
	}
	return m, s
}()

// versionKey sorts as the number does.
func versionKey(v uint64) string {
	s := strconv.FormatUint(v, 10)
	return strings.Repeat("0", 20-len(s)) + s
}
