package config

import (
	"maps"
	"slices"
	"strings"
)

// Shown is the configuration in the reply of GET /v1/agent/self, by the names that clients know: durations in nanoseconds, except
// for those of garbage collection and limits, which are texts. The gossip key and the configuration of plugins are left out.
func (c *Config) Shown() map[string]any {
	return map[string]any{
		"Region": c.Region, "Datacenter": c.Datacenter, "NodeName": c.Name, "DataDir": c.DataDir,
		"BindAddr": c.BindAddr, "DevMode": c.Dev, "EnableDebug": c.EnableDebug, "Files": c.Files, "ConfigPaths": c.Files,
		"LogLevel": c.LogLevel, "LogJson": c.LogJSON, "LogFile": c.LogFile, "LogIncludeLocation": c.LogIncludeLocation,
		"LogRotateDuration": c.LogRotateDuration.String(), "LogRotateBytes": c.LogRotateBytes, "LogRotateMaxFiles": c.LogRotateMaxFiles,
		"LeaveOnInt": c.LeaveOnInterrupt, "LeaveOnTerm": c.LeaveOnTerminate,
		"Ports":          map[string]any{"HTTP": c.Ports.HTTP, "RPC": c.Ports.RPC, "Serf": c.Ports.Serf},
		"Addresses":      c.Addresses.shown(c.BindAddr),
		"AdvertiseAddrs": c.Advertise.shown(""),
		"ACL":            c.ACL.shown(),
		"Audit":          c.Audit.shown(),
		"Telemetry":      c.Telemetry.shown(),
		"Server":         c.Server.shown(),
		"Client":         c.Client.shown(),
		"Plugins":        pluginsShown(c.Plugins),
		"PluginDir":      c.PluginDir,
		"Keyrings":       keyringsShown(c.Keyrings),
		"Autopilot": map[string]any{
			"CleanupDeadServers": c.Autopilot.CleanupDeadServers, "LastContactThreshold": c.Autopilot.LastContactThreshold,
			"MaxTrailingLogs": c.Autopilot.MaxTrailingLogs, "MinQuorum": c.Autopilot.MinQuorum, "ServerStabilizationTime": c.Autopilot.ServerStabilizationTime,
		},
		"Limits": map[string]any{
			"HTTPMaxConnsPerClient": c.Limits.HTTPConnsPerClient, "HTTPSHandshakeTimeout": c.Limits.HTTPSHandshake.String(),
			"RPCMaxConnsPerClient": c.Limits.RPCConnsPerClient, "RPCHandshakeTimeout": c.Limits.RPCHandshake.String(),
		},
		"TLSConfig": map[string]any{
			"EnableHTTP": c.TLS.HTTP, "EnableRPC": c.TLS.RPC, "CAFile": c.TLS.CAFile, "CertFile": c.TLS.CertFile, "KeyFile": c.TLS.KeyFile,
			"VerifyServerHostname": c.TLS.VerifyServerHostname, "VerifyHTTPSClient": c.TLS.VerifyHTTPSClient, "RPCUpgradeMode": c.TLS.RPCUpgradeMode,
			"TLSMinVersion": c.TLS.MinVersion, "TLSCipherSuites": c.TLS.CipherSuites,
		},
		"UI":                     c.UI.shown(),
		"HTTPAPIResponseHeaders": headersShown(c.HTTPHeaders),
	}
}

func (a Addresses) shown(missing string) map[string]any {
	or := func(address string) string {
		if address == "" {
			return missing
		}
		return address
	}
	return map[string]any{"HTTP": or(a.HTTP), "RPC": or(a.RPC), "Serf": or(a.Serf)}
}

// shown has no secret: the replication token is that of a management token.
func (a ACL) shown() map[string]any {
	token := ""
	if a.ReplicationToken != "" {
		token = "<redacted>"
	}
	return map[string]any{
		"Enabled": a.Enabled, "TokenTTL": a.TokenTTL, "PolicyTTL": a.PolicyTTL, "RoleTTL": a.RoleTTL, "ReplicationToken": token,
		"TokenMinExpirationTTL": a.TokenMinTTL, "TokenMaxExpirationTTL": a.TokenMaxTTL,
	}
}

func (s Server) shown() map[string]any {
	return map[string]any{
		"Enabled": s.Enabled, "BootstrapExpect": s.BootstrapExpect, "DataDir": s.DataDir,
		"NumSchedulers": s.NumSchedulers, "EnabledSchedulers": s.EnabledSchedulers,
		"NodeGCThreshold": s.NodeGCThreshold.String(), "JobGCInterval": s.JobGCInterval.String(), "JobGCThreshold": s.JobGCThreshold.String(),
		"EvalGCThreshold": s.EvalGCThreshold.String(), "BatchEvalGCThreshold": s.BatchEvalGC.String(), "DeploymentGCThreshold": s.DeploymentGC.String(),
		"RootKeyGCInterval": s.RootKeyGCInterval.String(), "RootKeyGCThreshold": s.RootKeyGC.String(), "RootKeyRotationThreshold": s.RootKeyRotation.String(),
		"ACLTokenGCThreshold": s.ACLTokenGC.String(), "AuthoritativeRegion": s.AuthoritativeRegion, "OIDCIssuer": s.OIDCIssuer,
		"HeartbeatGrace": s.HeartbeatGrace, "MinHeartbeatTTL": s.MinHeartbeatTTL, "FailoverHeartbeatTTL": s.FailoverTTL,
		"MaxHeartbeatsPerSecond": s.MaxHeartbeatsPerSec,
		"JobMaxPriority":         s.JobMaxPriority, "JobMaxCount": s.JobMaxCount, "JobMaxSourceSize": s.JobMaxSource, "JobTrackedVersions": s.JobTrackedVersions,
		"EnableEventBroker": s.EventBroker, "EventBufferSize": s.EventBuffer,
		"RaftMultiplier": s.RaftMultiplier, "RaftSnapshotThreshold": s.RaftSnapshotThreshold,
		"RaftSnapshotInterval": s.RaftSnapshotInterval.String(), "RaftTrailingLogs": s.RaftTrailingLogs,
		"RejoinAfterLeave": s.RejoinAfterLeave, "ServerJoin": s.Joins().shown(),
		"Search": map[string]any{
			"FuzzyEnabled": s.Search.FuzzyEnabled, "LimitQuery": s.Search.LimitQuery, "LimitResults": s.Search.LimitResults, "MinTermLength": s.Search.MinTermLength,
		},
		"PlanRejectionTracker": map[string]any{
			"Enabled": s.PlanRejection.Enabled, "NodeThreshold": s.PlanRejection.Threshold, "NodeWindow": s.PlanRejection.Window,
		},
		"ClientIntroduction": map[string]any{
			"Enforcement": s.Introduction.Enforcement, "DefaultIdentityTTL": s.Introduction.DefaultTTL.String(), "MaxIdentityTTL": s.Introduction.MaxTTL.String(),
		},
	}
}

func (j ServerJoin) shown() map[string]any {
	return map[string]any{"StartJoin": j.StartJoin, "RetryJoin": j.RetryJoin, "RetryMaxAttempts": j.RetryMax, "RetryInterval": j.RetryInterval}
}

func (c Client) shown() map[string]any {
	volumes := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(c.HostVolumes)) {
		volumes = append(volumes, map[string]any{"Name": name, "Path": c.HostVolumes[name].Path, "ReadOnly": c.HostVolumes[name].ReadOnly})
	}
	networks := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(c.HostNetworks)) {
		n := c.HostNetworks[name]
		networks = append(networks, map[string]any{"Name": name, "CIDR": n.CIDR, "Interface": n.Interface, "ReservedPorts": n.ReservedPorts})
	}
	var drain map[string]any
	if d := c.DrainOnShutdown; d != nil {
		drain = map[string]any{"Deadline": d.Deadline.String(), "Force": d.Force, "IgnoreSystemJobs": d.IgnoreSystemJobs}
	}
	return map[string]any{
		"Enabled": c.Enabled, "StateDir": c.StateDir, "AllocDir": c.AllocDir, "CommonPluginDir": c.CommonPluginDir, "HostVolumesDir": c.HostVolumesDir, "HostVolumePluginDir": c.HostVolumePluginDir, "Servers": c.Servers,
		"NodeClass": c.NodeClass, "NodePool": c.NodePool, "Options": c.Options, "Meta": c.Meta, "ChrootEnv": c.ChrootEnv, "CgroupParent": c.CgroupParent,
		"NetworkInterface": c.NetworkInterface, "CpuCompute": c.CPUTotalCompute, "MemoryMB": c.MemoryTotalMB, "DiskTotalMB": c.DiskTotalMB,
		"MaxKillTimeout": c.MaxKillTimeout.String(), "MinDynamicPort": c.MinDynamicPort, "MaxDynamicPort": c.MaxDynamicPort,
		"Reserved": map[string]any{
			"CPU": c.Reserved.CPU, "MemoryMB": c.Reserved.Memory, "DiskMB": c.Reserved.Disk,
			"ReservedPorts": c.Reserved.Ports, "Cores": c.Reserved.Cores,
		},
		"GCInterval": c.GCInterval, "GCParallelDestroys": c.GCParallel, "GCDiskUsageThreshold": c.GCDiskUsage,
		"GCInodeUsageThreshold": c.GCInodeUsage, "GCMaxAllocs": c.GCMaxAllocs, "NodeMaxAllocs": c.NodeMaxAllocs,
		"HostVolumes": volumes, "HostNetworks": networks, "CNIPath": c.CNIPath, "CNIConfigDir": c.CNIConfigDir, "BridgeNetworkName": c.BridgeName, "BridgeNetworkSubnet": c.BridgeSubnet,
		"BridgeNetworkSubnetIPv6": c.BridgeSubnet6, "BridgeNetworkHairpinMode": c.BridgeHairpin, "BindWildcardDefaultHostNetwork": c.BindWildcard,
		"ReservableCores": c.ReservableCores,
		"ServerJoin":      c.ServerJoin.shown(), "DefaultIneligible": c.DefaultIneligible, "DisableRemoteExec": c.DisableRemoteExec, "Drain": drain, "Artifact": c.Artifact.shown(),
		"TemplateConfig": map[string]any{
			"FunctionDenylist": c.Template.DeniedFunctions(), "Wait": c.Template.Wait.shown(), "WaitBounds": c.Template.Bounds.shown(),
			"MaxStale": c.Template.MaxStale.String(), "BlockQueryWaitTime": c.Template.BlockQueryWait.String(), "NomadRetry": map[string]any{
				"Attempts": c.Template.Retry.Attempts, "Backoff": c.Template.Retry.Backoff.String(), "MaxBackoff": c.Template.Retry.MaxBackoff.String(),
			},
		},
	}
}

func (a Artifact) shown() map[string]any {
	return map[string]any{
		"HTTPReadTimeout": a.HTTPReadTimeout.String(), "HTTPMaxSize": a.HTTPMaxSize, "GCSTimeout": a.GCSTimeout.String(), "GitTimeout": a.GitTimeout.String(),
		"HgTimeout": a.HgTimeout.String(), "S3Timeout": a.S3Timeout.String(),
		"DecompressionFileCountLimit": a.FileCount, "DecompressionSizeLimit": a.Size,
		"DisableFilesystemIsolation": a.Unconfined, "FilesystemIsolationExtraPaths": a.ExtraPaths, "SetEnvironmentVariables": a.Variables,
	}
}

func (w TemplateWait) shown() map[string]string {
	return map[string]string{"Min": w.Min.String(), "Max": w.Max.String()}
}

func pluginsShown(plugins map[string]Plugin) []map[string]any {
	out := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(plugins)) {
		out = append(out, map[string]any{"Name": name})
	}
	return out
}

// headersShown are the headers without credentials.
func headersShown(headers map[string]string) map[string]string {
	out := map[string]string{}
	for name, value := range headers {
		if low := strings.ToLower(name); strings.Contains(low, "auth") || strings.Contains(low, "token") || strings.Contains(low, "cookie") {
			value = "<redacted>"
		}
		out[name] = value
	}
	return out
}

// keyringsShown leaves out the keys of the providers: some are secret.
func keyringsShown(all []Keyring) []map[string]any {
	out := []map[string]any{}
	for _, k := range all {
		out = append(out, map[string]any{"Provider": k.Provider, "Name": k.Name, "Active": k.Active})
	}
	return out
}
