package rawexec

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// Config is the part of the agent's configuration about the driver.
type Config struct {
	// Enabled must be set: tasks of this driver have the power of the agent.
	Enabled bool
	// StateDir keeps a few small files per task. It must survive a restart of the agent.
	StateDir string
	// LeaseDir has the files that the supervising processes of an allocation lock together, of whatever driver; empty means
	// StateDir.
	LeaseDir string
	// Program is the path of the supervising program; empty installs the embedded one in StateDir.
	Program string
	// CgroupParent is the cgroup below which tasks get theirs, a path in each hierarchy; empty means "nomad.slice".
	CgroupParent string
	// NoCgroups keeps tasks in the cgroup of the agent.
	NoCgroups bool
	// PIDsLimit is how many processes and threads a task with limits may have; 0 is the default of package limits.
	PIDsLimit int64
	// DeniedEnvvars are environment variables that no task gets; "*" stands for any text.
	DeniedEnvvars []string
	// DeniedUIDs and DeniedGIDs are users and groups that no task runs as.
	DeniedUIDs, DeniedGIDs []IDs
}

// taskConfig is the config block of a task.
type taskConfig struct {
	Command          string            `config:"command,required"`
	Args             []string          `config:"args"`
	CgroupV1Override map[string]string `config:"cgroup_v1_override"`
	CgroupV2Override string            `config:"cgroup_v2_override"`
	OOMScoreAdj      int               `config:"oom_score_adj"`
	DeniedEnvvars    []string          `config:"denied_envvars"`
	WorkDir          string            `config:"work_dir"`
}

// ValidateConfig checks the config block of a raw_exec task.
func ValidateConfig(config map[string]any) error {
	_, err := decode(config)
	return err
}

func decode(config map[string]any) (*taskConfig, error) {
	c := &taskConfig{}
	if err := driver.DecodeConfig(Name, config, c); err != nil {
		return nil, err
	}
	switch {
	case c.Command == "":
		return nil, invalid(`"command" is empty`)
	case c.OOMScoreAdj < 0 || c.OOMScoreAdj > 1000:
		return nil, invalid(fmt.Sprintf(`"oom_score_adj" must be between 0 and 1000, not %d`, c.OOMScoreAdj))
	case c.WorkDir != "" && !filepath.IsAbs(c.WorkDir) || strings.ContainsRune(c.WorkDir, 0):
		return nil, invalid(fmt.Sprintf(`"work_dir" must be an absolute path, not %q`, c.WorkDir))
	case c.CgroupV2Override != "" && len(c.CgroupV1Override) > 0:
		return nil, invalid(`only one of "cgroup_v1_override" and "cgroup_v2_override" may be set`)
	}
	return c, checkVariables(c.DeniedEnvvars)
}

// override is the key by which the job names the cgroups of the task, empty when it names none.
func (c *taskConfig) override() string {
	switch {
	case c.CgroupV2Override != "":
		return "cgroup_v2_override"
	case len(c.CgroupV1Override) > 0:
		return "cgroup_v1_override"
	}
	return ""
}

func invalid(text string) error {
	return fault.New(fault.Invalid, "config of driver %s: %s", Name, text)
}

// checkVariables refuses patterns that match no variable.
func checkVariables(patterns []string) error {
	for _, p := range patterns {
		if p == "" || strings.ContainsAny(p, "=\x00") || !utf8.ValidString(p) {
			return invalid(fmt.Sprintf(`"denied_envvars" has %q, which is no name of a variable and no pattern of names`, p))
		}
	}
	return nil
}

// matcher returns a function that reports whether a name matches one of the patterns, in which "*" stands for any text.
func matcher(patterns []string) func(name string) bool {
	if len(patterns) == 0 {
		return func(string) bool { return false }
	}
	all := strings.ReplaceAll(regexp.QuoteMeta(strings.Join(patterns, "\x00")), `\*`, `.*`)
	return regexp.MustCompile(`(?s)^(?:` + strings.ReplaceAll(all, "\x00", "|") + `)$`).MatchString
}
