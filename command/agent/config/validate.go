package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/cpulist"
	"github.com/open-nomad/open-nomad/internal/lazy"
	"github.com/open-nomad/open-nomad/jobspec/volumespec"
)

// sourceMax limits the configured size of a job's source, in bytes: it is stored in the log.
const sourceMax = 4 << 20

// Validate reports everything that is wrong with the configuration.
func (c *Config) Validate() error {
	var errs []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(!c.Server.Enabled && !c.Client.Enabled,
		"neither server nor client is enabled: set server { enabled = true } or client { enabled = true }, or use -dev")
	wrong(strings.ContainsRune(c.Region, 0) || c.Region == "", "region %q is not valid", c.Region)
	wrong(strings.ContainsAny(c.Datacenter, "\x00*") || c.Datacenter == "", "datacenter %q is not valid", c.Datacenter)
	wrong(c.DataDir == "" && !c.Dev, "data_dir is required: name an absolute directory that survives restarts")
	for key, dir := range map[string]string{
		"data_dir": c.DataDir, "plugin_dir": c.PluginDir, "server.data_dir": c.Server.DataDir,
		"client.state_dir": c.Client.StateDir, "client.alloc_dir": c.Client.AllocDir, "client.common_plugin_dir": c.Client.CommonPluginDir,
		"client.host_volumes_dir": c.Client.HostVolumesDir, "client.host_volume_plugin_dir": c.Client.HostVolumePluginDir,
	} {
		wrong(dir != "" && !filepath.IsAbs(dir), "%s %q must be absolute", key, dir)
	}
	wrong(c.Client.NodePool == "all" || c.Client.NodePool == "", "client.node_pool %q is not a pool that a node can join", c.Client.NodePool)
	for key, port := range map[string]int{
		"ports.http": c.Ports.HTTP, "ports.rpc": c.Ports.RPC, "ports.serf": c.Ports.Serf,
		"client.min_dynamic_port": c.Client.MinDynamicPort, "client.max_dynamic_port": c.Client.MaxDynamicPort,
	} {
		wrong(port < 0 || port > 65535, "%s %d is not a port", key, port)
	}
	wrong(c.Client.MinDynamicPort > c.Client.MaxDynamicPort, "client.min_dynamic_port %d is above max_dynamic_port %d",
		c.Client.MinDynamicPort, c.Client.MaxDynamicPort)
	wrong(c.LogRotateDuration < 0 || c.LogRotateBytes < 0, "log_rotate_duration and log_rotate_bytes are not negative")
	for key, bad := range map[string]bool{
		"http_max_conns_per_client": c.Limits.HTTPConnsPerClient < 0, "https_handshake_timeout": c.Limits.HTTPSHandshake < 0,
		"rpc_max_conns_per_client": c.Limits.RPCConnsPerClient < 0, "rpc_handshake_timeout": c.Limits.RPCHandshake < 0,
	} {
		wrong(bad, "limits.%s is negative", key)
	}
	wrong(!slices.Contains([]string{"binpack", "spread"}, c.Server.Scheduler.Algorithm),
		"server.default_scheduler_config.scheduler_algorithm %q is neither binpack nor spread", c.Server.Scheduler.Algorithm)
	for key, bad := range map[string]bool{
		"server.default_scheduler_config.node_limit_for_feasibility_checks": c.Server.Scheduler.NodeLimitFeasibility < 0,
		"server.job_max_count":                c.Server.JobMaxCount < 0,
		"server.event_buffer_size":            c.Server.EventBuffer < 0,
		"server.acl_token_gc_threshold":       c.Server.ACLTokenGC < 0,
		"autopilot.last_contact_threshold":    c.Autopilot.LastContactThreshold < 0,
		"autopilot.max_trailing_logs":         c.Autopilot.MaxTrailingLogs < 0,
		"autopilot.min_quorum":                c.Autopilot.MinQuorum < 0,
		"autopilot.server_stabilization_time": c.Autopilot.ServerStabilizationTime < 0,
	} {
		wrong(bad, "%s is negative", key)
	}
	source, isSize := volumespec.Bytes(c.Server.JobMaxSource)
	wrong(!isSize || source > sourceMax, "server.job_max_source_size %q is not a size such as \"1M\" of at most %d bytes", c.Server.JobMaxSource, sourceMax)
	wrong(net.ParseIP(c.BindAddr) == nil, "bind_addr %q is not an IP address", c.BindAddr)
	for name, v := range c.Client.HostVolumes {
		wrong(!filepath.IsAbs(v.Path), "client.host_volume %q: path %q must be absolute", name, v.Path)
	}
	for name, h := range c.Client.HostNetworks {
		_, err := netip.ParsePrefix(h.CIDR)
		wrong(h.CIDR != "" && err != nil, "client.host_network %q: cidr %q is none", name, h.CIDR)
		wrong(h.CIDR == "" && h.Interface == "", "client.host_network %q needs a cidr or an interface", name)
	}
	for key, list := range map[string]string{"cni_path": c.Client.CNIPath, "cni_config_dir": c.Client.CNIConfigDir} {
		for _, dir := range filepath.SplitList(list) {
			wrong(!filepath.IsAbs(dir), "client.%s: path %q must be absolute", key, dir)
		}
	}
	for key, text := range map[string]string{"bridge_network_subnet": c.Client.BridgeSubnet, "bridge_network_subnet_ipv6": c.Client.BridgeSubnet6} {
		_, err := netip.ParsePrefix(text)
		wrong(text != "" && err != nil, "client.%s %q is no network such as 172.26.64.0/20", key, text)
	}
	for key, list := range map[string]string{"reserved.cores": c.Client.Reserved.Cores, "reservable_cores": c.Client.ReservableCores} {
		_, err := cpulist.Parse(list)
		wrong(err != nil, "client.%s: %v", key, err)
	}
	if d := c.Client.DrainOnShutdown; d != nil {
		wrong(d.Deadline < 0, "client.drain_on_shutdown.deadline %v is negative", d.Deadline)
		wrong(d.Force && d.Deadline > 0, "client.drain_on_shutdown has force and a deadline: only one is possible")
	}
	errs = append(errs, c.Client.Artifact.wrong()...)
	errs = append(errs, c.ACL.wrong()...)
	errs = append(errs, c.Audit.wrong()...)
	errs = append(errs, c.UI.wrong()...)
	errs = append(errs, c.Server.wrong()...)
	errs = append(errs, c.Server.wrongScheduling()...)
	errs = append(errs, c.TLS.wrong()...)
	return fault.Wrap(fault.Invalid, errors.Join(errs...))
}

// extraPath is a path that downloads can reach in addition: kind, rights and path.
var extraPath = lazy.Regexp(`^[df]:[rwcx]+:/`)

// wrong lists what is wrong with the limits of downloads.
func (a Artifact) wrong() []error {
	var errs []error
	for key, size := range map[string]string{"http_max_size": a.HTTPMaxSize, "decompression_size_limit": a.Size} {
		if _, ok := volumespec.Bytes(size); !ok {
			errs = append(errs, fmt.Errorf("client.artifact.%s %q is not a size such as \"100GB\"", key, size))
		}
	}
	for key, bad := range map[string]bool{
		"http_read_timeout": a.HTTPReadTimeout < 0, "gcs_timeout": a.GCSTimeout < 0, "git_timeout": a.GitTimeout < 0,
		"hg_timeout": a.HgTimeout < 0, "s3_timeout": a.S3Timeout < 0, "decompression_file_count_limit": a.FileCount < 0,
	} {
		if bad {
			errs = append(errs, fmt.Errorf("client.artifact.%s is negative", key))
		}
	}
	for _, p := range a.ExtraPaths {
		if !extraPath().MatchString(p) {
			errs = append(errs, fmt.Errorf("client.artifact.filesystem_isolation_extra_paths: %q is not of the form kind:rights:/path, such as d:rx:/opt/git", p))
		}
	}
	return errs
}

// wrong lists what is wrong with access control.
func (a ACL) wrong() []error {
	var errs []error
	for key, d := range map[string]time.Duration{
		"token_ttl": a.TokenTTL, "policy_ttl": a.PolicyTTL, "role_ttl": a.RoleTTL,
		"token_min_expiration_ttl": a.TokenMinTTL, "token_max_expiration_ttl": a.TokenMaxTTL,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("acl.%s %v is negative", key, d))
		}
	}
	if least, most := cmp.Or(a.TokenMinTTL, time.Minute), cmp.Or(a.TokenMaxTTL, 24*time.Hour); least > most {
		errs = append(errs, fmt.Errorf("acl.token_min_expiration_ttl %v is above token_max_expiration_ttl %v", least, most))
	}
	return errs
}

// schedulers are the names in enabled_schedulers.
var schedulers = []string{"service", "batch", "system", "sysbatch", "_core"}

// wrongScheduling lists what is wrong with how the server schedules.
func (s Server) wrongScheduling() []error {
	var errs []error
	if s.NumSchedulers < 0 || s.NumSchedulers > 1024 {
		errs = append(errs, fmt.Errorf("server.num_schedulers %d is not between 0 and 1024", s.NumSchedulers))
	}
	for _, k := range s.EnabledSchedulers {
		if !slices.Contains(schedulers, k) {
			errs = append(errs, fmt.Errorf("server.enabled_schedulers: %q is none of %v", k, schedulers))
		}
	}
	if s.Search.LimitQuery < 1 || s.Search.LimitResults < s.Search.LimitQuery || s.Search.MinTermLength < 1 {
		errs = append(errs, errors.New("server.search needs a limit_query and a min_term_length of at least 1, and a limit_results that is not below limit_query"))
	}
	if t := s.PlanRejection; t.Enabled && (t.Threshold < 1 || t.Window <= 0) {
		errs = append(errs, fmt.Errorf("server.plan_rejection_tracker needs a node_threshold of at least 1 and a node_window above 0"))
	}
	if i := s.Introduction; !slices.Contains([]string{"none", "warn", "strict"}, i.Enforcement) {
		errs = append(errs, fmt.Errorf("server.client_introduction.enforcement %q is none of none, warn and strict", i.Enforcement))
	} else if i.DefaultTTL < time.Second || i.DefaultTTL > i.MaxTTL {
		errs = append(errs, fmt.Errorf("server.client_introduction: default_identity_ttl %s is not between 1s and max_identity_ttl %s", i.DefaultTTL, i.MaxTTL))
	}
	return errs
}

// wrong lists what is wrong with the server block.
func (s Server) wrong() []error {
	var errs []error
	add := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for key, d := range map[string]time.Duration{
		"root_key_gc_interval": s.RootKeyGCInterval, "root_key_gc_threshold": s.RootKeyGC, "root_key_rotation_threshold": s.RootKeyRotation,
	} {
		add(d <= 0, "server.%s %v is not positive", key, d)
	}
	join := s.Joins()
	issuer, err := url.Parse(s.OIDCIssuer)
	add(s.OIDCIssuer != "" && (err != nil || issuer.Scheme != "https" && issuer.Scheme != "http" || issuer.Host == "" || issuer.RawQuery != "" || issuer.Fragment != ""),
		"server.oidc_issuer %q is not a URL such as https://nomad.example.com", s.OIDCIssuer)
	add(s.FenceHook != "" && !filepath.IsAbs(s.FenceHook), "server.fence_hook %q must be absolute", s.FenceHook)
	add(s.BootstrapExpect < 0, "server.bootstrap_expect %d is negative", s.BootstrapExpect)
	add(s.RaftMultiplier < 0 || s.RaftMultiplier > 10, "server.raft_multiplier %d is not in 1 to 10", s.RaftMultiplier)
	add(s.RaftSnapshotThreshold < 0 || s.RaftSnapshotInterval < 0 || s.RaftTrailingLogs < 0, "server.raft_snapshot_threshold, raft_snapshot_interval and raft_trailing_logs are not negative")
	add(join.RetryMax < 0 || join.RetryInterval < 0, "server.server_join: retry_max and retry_interval are not negative")
	for _, a := range append(join.StartJoin, join.RetryJoin...) {
		add(strings.TrimSpace(a) == "" || strings.ContainsAny(a, " =/"), "server.server_join: %q is not an address such as \"10.0.0.1:4648\"", a)
	}
	return errs
}
