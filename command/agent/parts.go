package agent

import (
	"cmp"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/artifacts"
	"github.com/open-nomad/open-nomad/client/gc"
	"github.com/open-nomad/open-nomad/client/networks"
	"github.com/open-nomad/open-nomad/client/templates"
	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/jobspec/volumespec"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acl"
	servergc "github.com/open-nomad/open-nomad/nomad/gc"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/member"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/operator"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/search"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
)

// serverConfig translates the configuration for the server.
func (a *agent) serverConfig() nomad.Config {
	s := a.cfg.Server
	dir := a.dirs.server
	if a.cfg.Dev && a.cfg.DataDir == "" {
		dir = ""
	}
	return nomad.Config{
		Name: a.cfg.Name, Region: a.cfg.Region, Datacenter: a.cfg.Datacenter, Version: build(a.version), Dir: dir,
		Bind:      net.JoinHostPort(cmp.Or(a.cfg.Addresses.RPC, a.cfg.BindAddr), strconv.Itoa(a.cfg.Ports.RPC)),
		Advertise: a.cfg.Advertise.RPC, JobVersions: s.JobTrackedVersions, EventBuffer: s.EventBuffer, NoEvents: !s.EventBroker, Log: a.log, TLS: a.tls.rpc,
		AccessControl: a.cfg.ACL.Enabled, AuthoritativeRegion: s.AuthoritativeRegion, OIDCIssuer: s.OIDCIssuer, ReplicationToken: a.cfg.ACL.ReplicationToken,
		Tokens:  acl.Limits{MinTTL: a.cfg.ACL.TokenMinTTL, MaxTTL: a.cfg.ACL.TokenMaxTTL, GCThreshold: s.ACLTokenGC},
		Workers: workers(s.NumSchedulers), Schedulers: queues(s.EnabledSchedulers), Rejections: plan.Rejections(s.PlanRejection),
		Search: search.Limits{Off: !s.Search.FuzzyEnabled, Shown: s.Search.LimitQuery, Kept: s.Search.LimitResults, Least: s.Search.MinTermLength},
		Gossip: a.gossip(),
		Limits: transport.Limits{ConnsPerClient: a.cfg.Limits.RPCConnsPerClient, Handshake: a.cfg.Limits.RPCHandshake},
		Raft: nomad.RaftTuning{
			Multiplier: s.RaftMultiplier, SnapshotInterval: s.RaftSnapshotInterval,
			SnapshotThreshold: uint64(s.RaftSnapshotThreshold), TrailingLogs: uint64(s.RaftTrailingLogs),
		},
		Introduction: nodes.Introduction{
			Enforcement: nodes.Enforcement(s.Introduction.Enforcement), DefaultTTL: s.Introduction.DefaultTTL, MaxTTL: s.Introduction.MaxTTL,
		},
		Heartbeat: nodes.Heartbeat{MinTTL: s.MinHeartbeatTTL, MaxPerSecond: s.MaxHeartbeatsPerSec, Grace: s.HeartbeatGrace, FailoverTTL: s.FailoverTTL},
		Jobs:      rules.Limits{PriorityMax: s.JobMaxPriority, CountMax: s.JobMaxCount, SourceMax: sourceMax(s.JobMaxSource)},
		Volumes:   reconciler.Limits{FenceHook: s.FenceHook},
		Begin:     a.begin(),
		Telemetry: nomad.Telemetry{
			Metrics: a.metrics, NoDispatchedJobs: a.cfg.Telemetry.DisableDispatchedJobSummary, NoIdentityLabels: a.cfg.Telemetry.DisableRPCRateLabels,
		},
		Keyring: keyring.Limits{Interval: s.RootKeyGCInterval, Unused: s.RootKeyGC, Rotation: s.RootKeyRotation},
		GC: servergc.Limits{
			Interval: s.JobGCInterval, EvalThreshold: s.EvalGCThreshold, BatchEvalThreshold: s.BatchEvalGC,
			JobThreshold: s.JobGCThreshold, NodeThreshold: s.NodeGCThreshold, DeploymentThreshold: s.DeploymentGC,
		},
	}
}

// begin is what a new cluster begins with.
func (a *agent) begin() operator.Begin {
	s, p := a.cfg.Server.Scheduler, a.cfg.Autopilot
	autopilot := api.DefaultAutopilot()
	autopilot.CleanupDeadServers, autopilot.LastContactThreshold = p.CleanupDeadServers, p.LastContactThreshold
	autopilot.MaxTrailingLogs, autopilot.MinQuorum = uint64(p.MaxTrailingLogs), uint(p.MinQuorum)
	autopilot.ServerStabilizationTime = p.ServerStabilizationTime
	return operator.Begin{Autopilot: autopilot, Scheduler: &api.SchedulerConfiguration{
		SchedulerAlgorithm: api.SchedulerAlgorithm(s.Algorithm), MemoryOversubscriptionEnabled: s.MemoryOversubscribed,
		PreemptionConfig: api.PreemptionConfig{
			SystemSchedulerEnabled: s.Preemption.System, SysBatchSchedulerEnabled: s.Preemption.SysBatch,
			BatchSchedulerEnabled: s.Preemption.Batch, ServiceSchedulerEnabled: s.Preemption.Service,
		},
		RejectJobRegistration: s.RejectJobs, PauseEvalBroker: s.PauseEvalBroker, NodeLimitForFeasibilityChecks: uint(s.NodeLimitFeasibility),
	}}
}

// sourceMax is the configured size as the server takes it: there 0 is a default.
func sourceMax(size string) int {
	if n, _ := volumespec.Bytes(size); n > 0 {
		return int(n)
	}
	return -1
}

// workers is the configured number as the server takes it: there 0 is a default.
func workers(configured int) int {
	if configured == 0 {
		return -1
	}
	return configured
}

// queues are the enabled schedulers without that of the compatible configuration which has no queue here.
func queues(enabled []string) []string {
	return slices.DeleteFunc(slices.Clone(enabled), func(k string) bool { return k == "_core" })
}

// gossip is how the server finds others.
func (a *agent) gossip() *nomad.Gossip {
	s, join := a.cfg.Server, a.cfg.Server.Joins()
	return &nomad.Gossip{
		Bind:      net.JoinHostPort(cmp.Or(a.cfg.Addresses.Serf, a.cfg.BindAddr), strconv.Itoa(a.cfg.Ports.Serf)),
		Advertise: a.cfg.Advertise.Serf, Expect: s.BootstrapExpect, Encrypt: s.Encrypt, RejoinAfterLeave: s.RejoinAfterLeave,
		Join: member.Join{Start: join.StartJoin, Retry: join.RetryJoin, Max: join.RetryMax, Interval: join.RetryInterval},
	}
}

// clientConfig translates the configuration for the node.
func (a *agent) clientConfig() client.Config {
	in, c := a.cfg.Client, client.Default()
	c.Region, c.Datacenter, c.Name, c.Version = a.cfg.Region, a.cfg.Datacenter, a.cfg.Name, a.version
	c.NodeClass, c.NodePool, c.Meta, c.Options = in.NodeClass, in.NodePool, in.Meta, in.Options
	c.DefaultIneligible, c.DisableRemoteExec, c.IntroToken = in.DefaultIneligible, in.DisableRemoteExec, in.IntroToken
	c.ServerHere = func() bool { return a.server != nil && len(a.link.Servers()) == 1 }
	c.HTTPAddr, c.StateDir, c.AllocDir, c.Servers = a.http.Addr().String(), a.dirs.state, a.dirs.alloc, a.link
	c.CommonPluginDir = cmp.Or(in.CommonPluginDir, filepath.Join(a.dirs.data, "common_plugins"))
	c.HTTPS, c.SecretsInMemory = a.cfg.TLS.HTTP, os.Geteuid() == 0
	c.NetworkInterface, c.CPUTotalCompute, c.MemoryTotalMB, c.DiskTotalMB = in.NetworkInterface, in.CPUTotalCompute, in.MemoryTotalMB, in.DiskTotalMB
	c.Templates = templatesOf(in.Template)
	c.MinDynamicPort, c.MaxDynamicPort, c.MaxKillTimeout, c.NodeMaxAllocs = in.MinDynamicPort, in.MaxDynamicPort, in.MaxKillTimeout, in.NodeMaxAllocs
	c.Reserved = api.NodeReservedResources{
		Cpu: api.NodeReservedCpuResources{CpuShares: uint64(in.Reserved.CPU)}, Memory: api.NodeReservedMemoryResources{MemoryMB: uint64(in.Reserved.Memory)},
		Disk: api.NodeReservedDiskResources{DiskMB: uint64(in.Reserved.Disk)}, Networks: api.NodeReservedNetworkResources{ReservedHostPorts: in.Reserved.Ports},
	}
	c.ReservedCores, c.ReservableCores = in.Reserved.Cores, in.ReservableCores
	if len(in.HostNetworks) > 0 {
		c.HostNetworks = map[string]*api.HostNetworkInfo{}
	}
	for name, h := range in.HostNetworks {
		c.HostNetworks[name] = &api.HostNetworkInfo{Name: name, CIDR: h.CIDR, Interface: h.Interface, ReservedPorts: h.ReservedPorts}
	}
	c.Networks = networksOf(in)
	c.HostVolumes = map[string]*api.HostVolumeInfo{}
	for name, v := range in.HostVolumes {
		c.HostVolumes[name] = &api.HostVolumeInfo{Path: v.Path, ReadOnly: v.ReadOnly}
	}
	c.HostVolumesDir = cmp.Or(in.HostVolumesDir, filepath.Join(a.dirs.data, "host_volumes"))
	c.HostVolumePluginDir = cmp.Or(in.HostVolumePluginDir, filepath.Join(a.dirs.data, "host_volume_plugins"))
	if d := in.DrainOnShutdown; d != nil {
		c.DrainOnShutdown = &client.DrainOnShutdown{Deadline: d.Deadline, Force: d.Force, IgnoreSystemJobs: d.IgnoreSystemJobs}
		if d.Deadline == 0 {
			c.DrainOnShutdown.Deadline = drainDeadline
		}
	}
	c.GC, c.GCInterval, c.Artifacts = gcLimits(a), in.GCInterval, downloads(in.Artifact)
	t := a.cfg.Telemetry
	c.Telemetry = client.Telemetry{
		Metrics: a.metrics, Node: t.PublishNode, Allocs: t.PublishAllocs, Hooks: !t.DisableAllocHooks, Interval: t.Interval,
	}
	if t.AllocMetadata {
		c.Telemetry.Meta = t.AllowedMetadata
	}
	c.Dev, c.Log = a.cfg.Dev && a.cfg.DataDir == "", a.log
	return c
}

// networksOf translates the configuration of networks of allocations, which was checked before.
func networksOf(in config.Client) networks.Config {
	c := networks.Default()
	c.Bridge, c.Hairpin, c.Wildcard = cmp.Or(in.BridgeName, c.Bridge), in.BridgeHairpin, in.BindWildcard
	if in.CNIPath != "" {
		c.CNI.Path = filepath.SplitList(in.CNIPath)
	}
	c.CNI.ConfigDir = cmp.Or(in.CNIConfigDir, c.CNI.ConfigDir)
	if p, err := netip.ParsePrefix(in.BridgeSubnet); err == nil {
		c.Subnet = p
	}
	if p, err := netip.ParsePrefix(in.BridgeSubnet6); err == nil {
		c.Subnet6 = p
	}
	return c
}

func downloads(in config.Artifact) artifacts.Config {
	response, _ := volumespec.Bytes(in.HTTPMaxSize)
	content, _ := volumespec.Bytes(in.Size)
	return artifacts.Config{
		HTTPReadTimeout: in.HTTPReadTimeout, GCSTimeout: in.GCSTimeout, GitTimeout: in.GitTimeout, HgTimeout: in.HgTimeout, S3Timeout: in.S3Timeout,
		HTTPMaxBytes: response, MaxFiles: in.FileCount, MaxBytes: content, Unconfined: in.Unconfined, ExtraPaths: in.ExtraPaths,
		Variables: strings.FieldsFunc(in.Variables, func(r rune) bool { return r == ',' || r == ' ' }),
	}
}

func gcLimits(a *agent) gc.Limits {
	in, l := a.cfg.Client, gc.DefaultLimits()
	l.MaxAllocs, l.DiskPercent, l.InodePercent, l.Parallel = in.GCMaxAllocs, in.GCDiskUsage, in.GCInodeUsage, in.GCParallel
	return l
}

// build is the version that servers report: the release that they are compatible with, and their own.
func build(version string) string { return api.Compatible + "+open-nomad." + version }

// self describes this agent.
func (a *agent) self() *api.AgentSelf {
	shown := a.cfg.Shown()
	shown["Version"] = map[string]any{"Version": api.Compatible, "VersionPrerelease": "", "VersionMetadata": "open-nomad." + a.version, "Revision": ""}
	out := &api.AgentSelf{
		Config: shown,
		Stats:  map[string]map[string]string{"runtime": {"goroutines": strconv.Itoa(runtime.NumGoroutine())}},
	}
	if a.server != nil {
		out.Stats = a.server.Stats()
		out.Member = *a.server.Member()
	}
	if a.node != nil {
		out.Stats["client"] = map[string]string{"node_id": a.node.ID(), "known_servers": strconv.Itoa(len(a.link.Servers()))}
	}
	return out
}

// templatesOf is how templates with functions are rendered.
func templatesOf(in config.Template) client.Templates {
	out := client.Templates{
		Denied: in.DeniedFunctions(), Wait: templates.Wait{Min: in.Wait.Min, Max: in.Wait.Max}, Bounds: templates.Wait{Min: in.Bounds.Min, Max: in.Bounds.Max},
		Calls: templates.Calls{
			MaxStale: in.MaxStale, Wait: in.BlockQueryWait, Attempts: in.Retry.Attempts, Backoff: in.Retry.Backoff, BackoffMax: in.Retry.MaxBackoff,
		},
	}
	if out.Denied == nil {
		out.Denied = templates.DeniedDefault()
	}
	return out
}
