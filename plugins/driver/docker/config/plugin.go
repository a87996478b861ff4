package config

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// Name is the name of the driver in job files.
const Name = "docker"

// capabilities are what containers have without cap_add, and what cap_add may ask for unless allow_caps lists others.
var capabilities = []string{
	"audit_write", "chown", "dac_override", "fowner", "fsetid", "kill", "mknod", "net_bind_service", "net_raw", "setfcap",
	"setgid", "setpcap", "setuid", "sys_chroot",
}

// Plugin is the config block of the driver's plugin block in the configuration of the agent.
type Plugin struct {
	// Endpoint is the address of the engine; empty means that of the environment variable DOCKER_HOST, or the default.
	Endpoint string `config:"endpoint"`
	Auth     struct {
		// Config is the path of a config.json, Helper the rest of the name of a program docker-credential-*.
		Config string `config:"config"`
		Helper string `config:"helper"`
	} `config:"auth"`
	TLS struct {
		Cert string `config:"cert"`
		Key  string `config:"key"`
		CA   string `config:"ca"`
	} `config:"tls"`
	// ExtraLabels are names, or patterns of names, of facts that become labels of containers.
	ExtraLabels []string `config:"extra_labels"`
	Logging     Logging  `config:"logging"`
	GC          struct {
		Image      bool          `config:"image"`
		ImageDelay time.Duration `config:"image_delay"`
		Container  bool          `config:"container"`
		Dangling   struct {
			Enabled       bool          `config:"enabled"`
			Period        time.Duration `config:"period"`
			CreationGrace time.Duration `config:"creation_grace"`
			DryRun        bool          `config:"dry_run"`
		} `config:"dangling_containers"`
	} `config:"gc"`
	Volumes struct {
		Enabled      bool   `config:"enabled"`
		SELinuxLabel string `config:"selinuxlabel"`
	} `config:"volumes"`
	AllowPrivileged bool `config:"allow_privileged"`
	// AllowCaps are in lower case and without "cap_" after [ParsePlugin].
	AllowCaps         []string      `config:"allow_caps"`
	NvidiaRuntime     string        `config:"nvidia_runtime"`
	AllowRuntimes     []string      `config:"allow_runtimes"`
	InfraImage        string        `config:"infra_image"`
	InfraImageTimeout time.Duration `config:"infra_image_pull_timeout"`
	ImagePullTimeout  time.Duration `config:"image_pull_timeout"`
	ExistsAttempts    int           `config:"container_exists_attempts"`
	OOMScoreAdj       int           `config:"oom_score_adj"`
	PullActivity      time.Duration `config:"pull_activity_timeout"`
	// PidsLimit is the most that a task may have; 0 is no limit.
	PidsLimit            int64 `config:"pids_limit"`
	DisableLogCollection bool  `config:"disable_log_collection"`
	WindowsAdmin         bool  `config:"windows_allow_insecure_container_admin"`
	AllowedModes         struct {
		PID    []string `config:"pid"`
		IPC    []string `config:"ipc"`
		Userns []string `config:"userns"`
		UTS    []string `config:"uts"`
	} `config:"allowed_modes"`
}

// Logging chooses a logging driver of the engine.
type Logging struct {
	Type   string            `config:"type"`
	Config map[string]string `config:"config"`
}

// Default is the config of an agent without a plugin block.
func Default() Plugin {
	var p Plugin
	p.GC.Image, p.GC.ImageDelay, p.GC.Container = true, 3*time.Minute, true
	d := &p.GC.Dangling
	d.Enabled, d.Period, d.CreationGrace = true, 5*time.Minute, 5*time.Minute
	p.AllowCaps = slices.Clone(capabilities)
	p.NvidiaRuntime, p.AllowRuntimes = "nvidia", []string{"runc", "nvidia"}
	p.ImagePullTimeout, p.PullActivity, p.InfraImageTimeout = 5*time.Minute, 2*time.Minute, 5*time.Minute
	p.ExistsAttempts = 5
	return p
}

// ParsePlugin reads the config of the plugin block of the agent's configuration; what it does not know is an error.
func ParsePlugin(config map[string]any) (Plugin, error) {
	p := Default()
	if err := driver.DecodeConfig(Name, config, &p); err != nil {
		return Plugin{}, err
	}
	p.Logging = p.Logging.or(Logging{Type: "json-file", Config: map[string]string{"max-size": "2m", "max-file": "2"}})
	for i, c := range p.AllowCaps {
		p.AllowCaps[i] = capability(c)
	}
	return p, p.check()
}

func (p *Plugin) check() error {
	for _, pattern := range p.ExtraLabels {
		if _, err := path.Match(pattern, ""); err != nil {
			return invalid(`"extra_labels" has the pattern %q, which is malformed`, pattern)
		}
	}
	for name, d := range map[string]time.Duration{
		"gc.image_delay": p.GC.ImageDelay, "image_pull_timeout": p.ImagePullTimeout, "pull_activity_timeout": p.PullActivity,
		"gc.dangling_containers.creation_grace": p.GC.Dangling.CreationGrace,
	} {
		if d < 0 {
			return invalid("%q must not be negative", name)
		}
	}
	switch {
	case p.GC.Dangling.Period < time.Second:
		return invalid(`"gc.dangling_containers.period" must be at least 1s`)
	case p.ExistsAttempts < 1:
		return invalid(`"container_exists_attempts" must be at least 1`)
	case p.PidsLimit < 0:
		return invalid(`"pids_limit" must not be negative`)
	case p.OOMScoreAdj < -1000 || p.OOMScoreAdj > 1000:
		return invalid(`"oom_score_adj" must be between -1000 and 1000`)
	case p.Auth.Config != "" && p.Auth.Helper != "":
		return invalid(`only one of "auth.config" and "auth.helper" may be set`)
	case strings.ContainsAny(p.Auth.Helper, "/"):
		return invalid(`"auth.helper" is the end of a name docker-credential-*, and no path`)
	case (p.TLS.Cert == "") != (p.TLS.Key == ""):
		return invalid(`"tls.cert" and "tls.key" need each other`)
	case p.InfraImage != "":
		return invalid(`"infra_image" is not needed: containers join group networks through one of their own image; remove it`)
	case p.WindowsAdmin:
		return invalid(`"windows_allow_insecure_container_admin" is for Windows, which this version does not run on; remove it`)
	}
	return nil
}

// or is l, or other when l chooses nothing.
func (l Logging) or(other Logging) Logging {
	if l.Type == "" && len(l.Config) == 0 {
		return other
	}
	l.Type = cmp.Or(l.Type, other.Type)
	return l
}

// capability is the name of a capability as this package compares it.
func capability(name string) string { return strings.TrimPrefix(strings.ToLower(name), "cap_") }

func invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, "config of driver "+Name+": "+format, args...)
}
