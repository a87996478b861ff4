package config

import (
	"runtime"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// Config is the whole configuration of an agent.
type Config struct {
	Region     string `hcl:"region"`
	Datacenter string `hcl:"datacenter"`
	// Name is the name of the node and the server; the host's name when empty.
	Name               string `hcl:"name"`
	DataDir            string `hcl:"data_dir"`
	BindAddr           string `hcl:"bind_addr"`
	LogLevel           string `hcl:"log_level"`
	LogJSON            bool   `hcl:"log_json"`
	LogFile            string `hcl:"log_file"`
	LogIncludeLocation bool   `hcl:"log_include_location"`
	// LogRotateDuration and LogRotateBytes are when the log file is closed and another one begun; 0 is never.
	LogRotateDuration time.Duration `hcl:"log_rotate_duration"`
	LogRotateBytes    int           `hcl:"log_rotate_bytes"`
	// LogRotateMaxFiles is how many closed log files are kept: 0 keeps all, less keeps none.
	LogRotateMaxFiles int               `hcl:"log_rotate_max_files"`
	EnableDebug       bool              `hcl:"enable_debug"`
	LeaveOnInterrupt  bool              `hcl:"leave_on_interrupt"`
	LeaveOnTerminate  bool              `hcl:"leave_on_terminate"`
	Ports             Ports             `hcl:"ports"`
	Addresses         Addresses         `hcl:"addresses"`
	Advertise         Addresses         `hcl:"advertise"`
	Server            Server            `hcl:"server"`
	Client            Client            `hcl:"client"`
	Plugins           map[string]Plugin `hcl:"plugin"`
	PluginDir         string            `hcl:"plugin_dir"`
	// Keyrings are the keyring blocks, in the order of the files.
	Keyrings []Keyring
	TLS      TLS    `hcl:"tls"`
	ACL      ACL    `hcl:"acl"`
	Audit    Audit  `hcl:"audit"`
	Limits   Limits `hcl:"limits"`
	// Telemetry is what is measured, and where it goes.
	Telemetry Telemetry `hcl:"telemetry"`
	// Autopilot is what a new cluster begins with.
	Autopilot Autopilot `hcl:"autopilot"`
	// UI is the web user interface.
	UI UI `hcl:"ui"`
	// HTTPHeaders are added to every response of the HTTP API.
	HTTPHeaders map[string]string `hcl:"http_api_response_headers"`

	// Dev is set by -dev: server and client in one, nothing kept.
	Dev bool
	// Files lists what was read, in order.
	Files []string
	// Warnings lists keys that are known but not used.
	Warnings []string
	// Again reads the same files and flags once more, for a reload; nil when there are none.
	Again func() (*Config, error)
}

// ACL is access control.
type ACL struct {
	Enabled bool `hcl:"enabled"`
	// TokenTTL, PolicyTTL and RoleTTL are for how long rights may be out of date. They never are: a change counts at once.
	TokenTTL  time.Duration `hcl:"token_ttl"`
	PolicyTTL time.Duration `hcl:"policy_ttl"`
	RoleTTL   time.Duration `hcl:"role_ttl"`
	// ReplicationToken is the secret of a management token of the authoritative region.
	ReplicationToken string `hcl:"replication_token"`
	// TokenMinTTL and TokenMaxTTL bound the lifetime of tokens that expire; 0 is a minute and a day.
	TokenMinTTL time.Duration `hcl:"token_min_expiration_ttl"`
	TokenMaxTTL time.Duration `hcl:"token_max_expiration_ttl"`
}

// Limits bound what one client address may take of the ports; 0 does not bound it.
type Limits struct {
	HTTPConnsPerClient int           `hcl:"http_max_conns_per_client"`
	HTTPSHandshake     time.Duration `hcl:"https_handshake_timeout"`
	RPCConnsPerClient  int           `hcl:"rpc_max_conns_per_client"`
	RPCHandshake       time.Duration `hcl:"rpc_handshake_timeout"`
}

// Ports are TCP ports; 0 picks a free one.
type Ports struct {
	HTTP int `hcl:"http"`
	RPC  int `hcl:"rpc"`
	Serf int `hcl:"serf"`
}

// Addresses are hosts to bind or to advertise, per service; empty means the agent's bind address.
type Addresses struct {
	HTTP string `hcl:"http"`
	RPC  string `hcl:"rpc"`
	Serf string `hcl:"serf"`
}

// Server is the server block.
type Server struct {
	Enabled             bool          `hcl:"enabled"`
	BootstrapExpect     int           `hcl:"bootstrap_expect"`
	DataDir             string        `hcl:"data_dir"`
	NumSchedulers       int           `hcl:"num_schedulers"`
	EnabledSchedulers   []string      `hcl:"enabled_schedulers"`
	NodeGCThreshold     time.Duration `hcl:"node_gc_threshold"`
	JobGCInterval       time.Duration `hcl:"job_gc_interval"`
	JobGCThreshold      time.Duration `hcl:"job_gc_threshold"`
	EvalGCThreshold     time.Duration `hcl:"eval_gc_threshold"`
	BatchEvalGC         time.Duration `hcl:"batch_eval_gc_threshold"`
	DeploymentGC        time.Duration `hcl:"deployment_gc_threshold"`
	ACLTokenGC          time.Duration `hcl:"acl_token_gc_threshold"`
	RootKeyGCInterval   time.Duration `hcl:"root_key_gc_interval"`
	RootKeyGC           time.Duration `hcl:"root_key_gc_threshold"`
	RootKeyRotation     time.Duration `hcl:"root_key_rotation_threshold"`
	HeartbeatGrace      time.Duration `hcl:"heartbeat_grace"`
	MinHeartbeatTTL     time.Duration `hcl:"min_heartbeat_ttl"`
	MaxHeartbeatsPerSec float64       `hcl:"max_heartbeats_per_second"`
	FailoverTTL         time.Duration `hcl:"failover_heartbeat_ttl"`
	JobMaxPriority      int           `hcl:"job_max_priority"`
	JobMaxCount         int           `hcl:"job_max_count"`
	// JobMaxSource is a size such as "1M"; "0" keeps no source.
	JobMaxSource       string `hcl:"job_max_source_size"`
	JobTrackedVersions int    `hcl:"job_tracked_versions"`
	// EventBroker serves the event stream from a buffer of EventBuffer raft indexes.
	EventBroker bool `hcl:"enable_event_broker"`
	EventBuffer int  `hcl:"event_buffer_size"`
	// AuthoritativeRegion is where global tokens, policies, roles and auth methods are written; empty is this region.
	AuthoritativeRegion string `hcl:"authoritative_region"`
	// OIDCIssuer is the URL at which third parties reach the cluster as an OpenID Connect provider; it may be empty.
	OIDCIssuer string `hcl:"oidc_issuer"`
	// FenceHook is a program that shuts off a lost node, so that its volumes can move.
	FenceHook string `hcl:"fence_hook"`
	// Encrypt is the first gossip key in base64.
	Encrypt          string     `hcl:"encrypt"`
	ServerJoin       ServerJoin `hcl:"server_join"`
	RejoinAfterLeave bool       `hcl:"rejoin_after_leave"`
	// StartJoin to RetryInterval are the deprecated keys of server_join.
	StartJoin             []string      `hcl:"start_join"`
	RetryJoin             []string      `hcl:"retry_join"`
	RetryMax              int           `hcl:"retry_max"`
	RetryInterval         time.Duration `hcl:"retry_interval"`
	RaftMultiplier        int           `hcl:"raft_multiplier"`
	RaftSnapshotThreshold int           `hcl:"raft_snapshot_threshold"`
	RaftSnapshotInterval  time.Duration `hcl:"raft_snapshot_interval"`
	RaftTrailingLogs      int           `hcl:"raft_trailing_logs"`
	// PlanRejection takes nodes out of scheduling that plans are rejected on again and again.
	PlanRejection PlanRejection `hcl:"plan_rejection_tracker"`
	// Search bounds searches for a part of a name.
	Search Search `hcl:"search"`
	// Introduction is the requirement for new nodes.
	Introduction Introduction `hcl:"client_introduction"`
	// Scheduler is what a new cluster begins with.
	Scheduler Scheduler `hcl:"default_scheduler_config"`
}

// PlanRejection configures when a node with rejected plans becomes ineligible.
type PlanRejection struct {
	Enabled   bool          `hcl:"enabled"`
	Threshold int           `hcl:"node_threshold"`
	Window    time.Duration `hcl:"node_window"`
}

// Search bounds searches for a part of a name: LimitQuery is how many matches of a kind of objects a response has, LimitResults
// how many are compared with each other to find the best, MinTermLength the length of the shortest text in bytes.
type Search struct {
	FuzzyEnabled  bool `hcl:"fuzzy_enabled"`
	LimitQuery    int  `hcl:"limit_query"`
	LimitResults  int  `hcl:"limit_results"`
	MinTermLength int  `hcl:"min_term_length"`
}

// Introduction configures the introduction of new nodes: the enforcement is none, warn or strict.
type Introduction struct {
	Enforcement string        `hcl:"enforcement"`
	DefaultTTL  time.Duration `hcl:"default_identity_ttl"`
	MaxTTL      time.Duration `hcl:"max_identity_ttl"`
}

// Client is the client block.
type Client struct {
	Enabled          bool                  `hcl:"enabled"`
	StateDir         string                `hcl:"state_dir"`
	AllocDir         string                `hcl:"alloc_dir"`
	CommonPluginDir  string                `hcl:"common_plugin_dir"`
	Servers          []string              `hcl:"servers"`
	NodeClass        string                `hcl:"node_class"`
	NodePool         string                `hcl:"node_pool"`
	Options          map[string]string     `hcl:"options"`
	Meta             map[string]string     `hcl:"meta"`
	ChrootEnv        map[string]string     `hcl:"chroot_env"`
	CgroupParent     string                `hcl:"cgroup_parent"`
	NetworkInterface string                `hcl:"network_interface"`
	CPUTotalCompute  int                   `hcl:"cpu_total_compute"`
	MemoryTotalMB    int                   `hcl:"memory_total_mb"`
	DiskTotalMB      int                   `hcl:"disk_total_mb"`
	MaxKillTimeout   time.Duration         `hcl:"max_kill_timeout"`
	MinDynamicPort   int                   `hcl:"min_dynamic_port"`
	MaxDynamicPort   int                   `hcl:"max_dynamic_port"`
	Reserved         Reserved              `hcl:"reserved"`
	GCInterval       time.Duration         `hcl:"gc_interval"`
	GCParallel       int                   `hcl:"gc_parallel_destroys"`
	GCDiskUsage      float64               `hcl:"gc_disk_usage_threshold"`
	GCInodeUsage     float64               `hcl:"gc_inode_usage_threshold"`
	GCMaxAllocs      int                   `hcl:"gc_max_allocs"`
	NodeMaxAllocs    int                   `hcl:"node_max_allocs"`
	HostVolumes      map[string]HostVolume `hcl:"host_volume"`
	// HostVolumesDir is where dynamic host volumes are made, HostVolumePluginDir has the executables that make them.
	HostVolumesDir      string `hcl:"host_volumes_dir"`
	HostVolumePluginDir string `hcl:"host_volume_plugin_dir"`
	// HostNetworks are the networks of the host that ports may name.
	HostNetworks map[string]HostNetwork `hcl:"host_network"`
	// BridgeName, BridgeSubnet and BridgeSubnet6 describe the bridge of allocations; empty means the defaults, and no IPv6.
	BridgeName    string `hcl:"bridge_network_name"`
	BridgeSubnet  string `hcl:"bridge_network_subnet"`
	BridgeSubnet6 string `hcl:"bridge_network_subnet_ipv6"`
	// BridgeHairpin lets an allocation reach itself through its port of the bridge.
	BridgeHairpin bool `hcl:"bridge_network_hairpin_mode"`
	// CNIPath are the directories of CNI plugins, with colons between them; CNIConfigDir has the configurations of networks.
	CNIPath      string `hcl:"cni_path"`
	CNIConfigDir string `hcl:"cni_config_dir"`
	// BindWildcard forwards ports of the default host network on all addresses of the host.
	BindWildcard bool `hcl:"bind_wildcard_default_host_network"`
	// Artifact limits downloads of artifacts.
	Artifact Artifact `hcl:"artifact"`
	// ReservableCores are the cores that tasks may reserve, such as "0-3,6"; empty means all.
	ReservableCores string     `hcl:"reservable_cores"`
	ServerJoin      ServerJoin `hcl:"server_join"`
	// DefaultIneligible keeps a new node from getting work until an operator makes it eligible.
	DefaultIneligible bool `hcl:"default_ineligible"`
	// DisableRemoteExec refuses to run commands in tasks.
	DisableRemoteExec bool `hcl:"disable_remote_exec"`
	// DrainOnShutdown is nil where the block is absent.
	DrainOnShutdown *DrainOnShutdown `hcl:"drain_on_shutdown"`
	Template        Template         `hcl:"template"`
	// IntroToken introduces a new node; it is set by a flag or the environment only.
	IntroToken string
}

// Artifact limits downloads of artifacts; 0 means no limit.
type Artifact struct {
	HTTPReadTimeout time.Duration `hcl:"http_read_timeout"`
	HTTPMaxSize     string        `hcl:"http_max_size"`
	GCSTimeout      time.Duration `hcl:"gcs_timeout"`
	GitTimeout      time.Duration `hcl:"git_timeout"`
	HgTimeout       time.Duration `hcl:"hg_timeout"`
	S3Timeout       time.Duration `hcl:"s3_timeout"`
	// FileCount and Size limit the content of an archive.
	FileCount int    `hcl:"decompression_file_count_limit"`
	Size      string `hcl:"decompression_size_limit"`
	// Unconfined leaves out the limits on files that downloads can reach; ExtraPaths are more of these, such as "d:rx:/opt/git".
	Unconfined bool     `hcl:"disable_filesystem_isolation"`
	ExtraPaths []string `hcl:"filesystem_isolation_extra_paths"`
	// Variables are the names of variables of the agent that downloads get, separated by commas.
	Variables string `hcl:"set_environment_variables"`
}

// Template is how templates with functions are rendered.
type Template struct {
	// Denied are functions that templates may not call, as patterns; OldDenied is used where it is absent.
	Denied    []string `hcl:"function_denylist"`
	OldDenied []string `hcl:"function_blacklist"`
	// Wait is for templates without a wait of their own; Bounds bounds those of all.
	Wait   TemplateWait `hcl:"wait"`
	Bounds TemplateWait `hcl:"wait_bounds"`
	// MaxStale is how far behind the leader the services and variables may be that another server returns; 0 reads from the leader.
	MaxStale time.Duration `hcl:"max_stale"`
	// BlockQueryWait bounds a call that waits for a change; 0 means 5 minutes.
	BlockQueryWait time.Duration `hcl:"block_query_wait"`
	// Retry is how calls that fail are repeated.
	Retry TemplateRetry `hcl:"nomad_retry"`
}

// TemplateRetry is how calls for the data of templates are repeated.
type TemplateRetry struct {
	// Attempts is how often a call is tried before the templates fail; 0 is no limit.
	Attempts int `hcl:"attempts"`
	// Backoff is the first pause, which doubles up to MaxBackoff; 0 means 250 ms and 5 s.
	Backoff    time.Duration `hcl:"backoff"`
	MaxBackoff time.Duration `hcl:"max_backoff"`
}

// DeniedFunctions are the functions that templates may not call, as patterns.
func (t Template) DeniedFunctions() []string {
	if t.Denied != nil {
		return t.Denied
	}
	return t.OldDenied
}

// TemplateWait is how long data must be unchanged before a template is rendered again.
type TemplateWait struct {
	Min time.Duration `hcl:"min"`
	Max time.Duration `hcl:"max"`
}

// DrainOnShutdown is how a client drains its node when leave_on_interrupt or leave_on_terminate ends it.
type DrainOnShutdown struct {
	// Deadline defaults to an hour.
	Deadline         time.Duration `hcl:"deadline"`
	Force            bool          `hcl:"force"`
	IgnoreSystemJobs bool          `hcl:"ignore_system_jobs"`
}

// Reserved is what is kept for the host: MHz, MiB, MiB, ports such as "22,80-90" and cores such as "0-1".
type Reserved struct {
	CPU    int    `hcl:"cpu"`
	Memory int    `hcl:"memory"`
	Disk   int    `hcl:"disk"`
	Ports  string `hcl:"reserved_ports"`
	Cores  string `hcl:"cores"`
}

// HostNetwork is a network of the host: the addresses in CIDR, those of Interface, or those that are both.
type HostNetwork struct {
	CIDR          string `hcl:"cidr"`
	Interface     string `hcl:"interface"`
	ReservedPorts string `hcl:"reserved_ports"`
}

// HostVolume is a directory of the host that jobs may mount.
type HostVolume struct {
	Path     string `hcl:"path"`
	ReadOnly bool   `hcl:"read_only"`
}

// ServerJoin lists servers to find at the start: gossip addresses for servers, RPC addresses for clients.
type ServerJoin struct {
	StartJoin []string `hcl:"start_join"`
	RetryJoin []string `hcl:"retry_join"`
	// RetryMax bounds the tries; 0 does not.
	RetryMax      int           `hcl:"retry_max"`
	RetryInterval time.Duration `hcl:"retry_interval"`
}

// Joins merges server_join with its deprecated keys; server_join wins.
func (s Server) Joins() ServerJoin {
	j := s.ServerJoin
	j.StartJoin = append(append([]string{}, j.StartJoin...), s.StartJoin...)
	j.RetryJoin = append(append([]string{}, j.RetryJoin...), s.RetryJoin...)
	if j.RetryMax == 0 {
		j.RetryMax = s.RetryMax
	}
	if j.RetryInterval == 0 {
		j.RetryInterval = s.RetryInterval
	}
	return j
}

// Scheduler is the scheduling configuration.
type Scheduler struct {
	Algorithm            string     `hcl:"scheduler_algorithm"`
	Preemption           Preemption `hcl:"preemption_config"`
	MemoryOversubscribed bool       `hcl:"memory_oversubscription_enabled"`
	RejectJobs           bool       `hcl:"reject_job_registration"`
	PauseEvalBroker      bool       `hcl:"pause_eval_broker"`
	NodeLimitFeasibility int        `hcl:"node_limit_for_feasibility_checks"`
}

// Preemption switches preemption per type of job.
type Preemption struct {
	System   bool `hcl:"system_scheduler_enabled"`
	SysBatch bool `hcl:"sysbatch_scheduler_enabled"`
	Batch    bool `hcl:"batch_scheduler_enabled"`
	Service  bool `hcl:"service_scheduler_enabled"`
}

// Autopilot is how the autopilot looks after servers.
type Autopilot struct {
	CleanupDeadServers      bool          `hcl:"cleanup_dead_servers"`
	LastContactThreshold    time.Duration `hcl:"last_contact_threshold"`
	MaxTrailingLogs         int           `hcl:"max_trailing_logs"`
	MinQuorum               int           `hcl:"min_quorum"`
	ServerStabilizationTime time.Duration `hcl:"server_stabilization_time"`
}

// Plugin is the configuration of a task driver or device plugin.
type Plugin struct {
	// Args are the arguments of the executable of an external driver.
	Args   []string       `hcl:"args"`
	Config map[string]any `hcl:"config"`
}

// Default returns the configuration before any file is read.
func Default() *Config {
	const download = 30 * time.Minute
	autopilot := api.DefaultAutopilot()
	return &Config{
		Region: "global", Datacenter: "dc1", BindAddr: "0.0.0.0", LogLevel: "INFO", LogRotateDuration: 24 * time.Hour,
		Ports: Ports{HTTP: 4646, RPC: 4647, Serf: 4648},
		Server: Server{
			NodeGCThreshold: 24 * time.Hour, JobGCInterval: 5 * time.Minute, JobGCThreshold: 4 * time.Hour,
			EvalGCThreshold: time.Hour, BatchEvalGC: 24 * time.Hour, DeploymentGC: time.Hour, ACLTokenGC: time.Hour,
			RootKeyGCInterval: 10 * time.Minute, RootKeyGC: time.Hour, RootKeyRotation: 720 * time.Hour,
			HeartbeatGrace: 10 * time.Second, MinHeartbeatTTL: 10 * time.Second,
			MaxHeartbeatsPerSec: 50, FailoverTTL: 5 * time.Minute,
			JobMaxPriority: 100, JobMaxCount: 50_000, JobMaxSource: "1M", JobTrackedVersions: 6, EventBroker: true, EventBuffer: 100,
			Scheduler:     Scheduler{Algorithm: string(api.SchedulerAlgorithmBinpack), Preemption: Preemption{System: true}},
			NumSchedulers: runtime.NumCPU(), PlanRejection: PlanRejection{Threshold: 100, Window: 5 * time.Minute},
			Search:       Search{FuzzyEnabled: true, LimitQuery: 20, LimitResults: 100, MinTermLength: 2},
			Introduction: Introduction{Enforcement: "warn", DefaultTTL: 5 * time.Minute, MaxTTL: 30 * time.Minute},
		},
		Autopilot: Autopilot{
			CleanupDeadServers: autopilot.CleanupDeadServers, LastContactThreshold: autopilot.LastContactThreshold,
			MaxTrailingLogs: int(autopilot.MaxTrailingLogs), ServerStabilizationTime: autopilot.ServerStabilizationTime,
		},
		ACL:       ACL{TokenTTL: 30 * time.Second, PolicyTTL: 30 * time.Second, RoleTTL: 30 * time.Second},
		Limits:    Limits{HTTPConnsPerClient: 100, HTTPSHandshake: 5 * time.Second, RPCConnsPerClient: 100, RPCHandshake: 5 * time.Second},
		Telemetry: defaultTelemetry(),
		UI:        UI{Enabled: true, ShowCLIHints: true},
		Client: Client{
			BindWildcard: true,
			NodePool:     "default", MaxKillTimeout: 30 * time.Second, MinDynamicPort: 20000, MaxDynamicPort: 32000,
			Artifact: Artifact{
				HTTPReadTimeout: download, HTTPMaxSize: "100GB", GCSTimeout: download, GitTimeout: download, HgTimeout: download, S3Timeout: download,
				FileCount: 4096, Size: "100GB",
			},
			GCInterval: time.Minute, GCParallel: 2, GCDiskUsage: 80, GCInodeUsage: 70, GCMaxAllocs: 50,
		},
	}
}

// SetDev changes the configuration to what -dev means: a server and a client on loopback,
// with raw_exec, keeping nothing.
func (c *Config) SetDev() {
	c.Dev = true
	c.BindAddr, c.LogLevel, c.EnableDebug = "127.0.0.1", "DEBUG", true
	c.Server.Enabled, c.Server.BootstrapExpect = true, 1
	if c.Server.Introduction.Enforcement == "warn" {
		c.Server.Introduction.Enforcement = "none"
	}
	c.Client.Enabled = true
	t := &c.Telemetry
	t.Prometheus, t.PublishAllocs, t.PublishNode, t.AllocMetadata = true, true, true, true
	c.Client.GCInterval, c.Client.GCDiskUsage, c.Client.GCInodeUsage = 10*time.Minute, 99, 99
	if c.Plugins == nil {
		c.Plugins = map[string]Plugin{}
	}
	raw := c.Plugins["raw_exec"]
	if raw.Config == nil {
		raw.Config = map[string]any{}
	}
	if _, said := raw.Config["enabled"]; !said {
		raw.Config["enabled"] = true
	}
	c.Plugins["raw_exec"] = raw
}
