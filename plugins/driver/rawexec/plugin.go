package rawexec

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// block is the config of the driver's plugin block in the configuration of the agent.
type block struct {
	Enabled        bool     `config:"enabled"`
	NoCgroups      bool     `config:"no_cgroups"`
	DeniedEnvvars  []string `config:"denied_envvars"`
	DeniedHostUIDs string   `config:"denied_host_uids"`
	DeniedHostGIDs string   `config:"denied_host_gids"`
}

// ParseConfig reads the config of the plugin block of the agent's configuration; what it does not know is an error.
func ParseConfig(config map[string]any) (Config, error) {
	var b block
	if err := driver.DecodeConfig(Name, config, &b); err != nil {
		return Config{}, err
	}
	c := Config{Enabled: b.Enabled, NoCgroups: b.NoCgroups, DeniedEnvvars: b.DeniedEnvvars}
	err := checkVariables(c.DeniedEnvvars)
	if err != nil {
		return Config{}, err
	}
	if c.DeniedUIDs, err = ParseIDs(b.DeniedHostUIDs); err != nil {
		return Config{}, invalid(`"denied_host_uids" ` + err.Error())
	}
	if c.DeniedGIDs, err = ParseIDs(b.DeniedHostGIDs); err != nil {
		return Config{}, invalid(`"denied_host_gids" ` + err.Error())
	}
	return c, nil
}

// IDs are ids of users or groups, from the first to the last.
type IDs struct{ First, Last uint32 }

// ParseIDs reads a list such as "0,100-200".
func ParseIDs(list string) ([]IDs, error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	var out []IDs
	for _, part := range strings.Split(list, ",") {
		from, to, _ := strings.Cut(part, "-")
		first, err := strconv.ParseUint(strings.TrimSpace(from), 10, 32)
		last, bad := strconv.ParseUint(strings.TrimSpace(cmp.Or(to, from)), 10, 32)
		if err != nil || bad != nil || last < first || strings.HasSuffix(part, "-") {
			return nil, fmt.Errorf("has %q, which is no id and no range of ids", part)
		}
		out = append(out, IDs{uint32(first), uint32(last)})
	}
	return out, nil
}

func among(list []IDs, id int64) bool {
	for _, r := range list {
		if id >= int64(r.First) && id <= int64(r.Last) {
			return true
		}
	}
	return false
}

// allowed checks the user and the groups of a task, which are those of the agent unless it names a user.
func (d *Driver) allowed(taskID string, user bool, uid, gid int64, groups []int64) error {
	if !user {
		uid, gid = int64(os.Geteuid()), int64(os.Getegid())
	}
	if among(d.config.DeniedUIDs, uid) {
		return fault.New(fault.Invalid, `task %s: user %d is in "denied_host_uids" of driver %s on this node`, taskID, uid, d.Name())
	}
	for _, g := range append([]int64{gid}, groups...) {
		if among(d.config.DeniedGIDs, g) {
			return fault.New(fault.Invalid, `task %s: group %d is in "denied_host_gids" of driver %s on this node`, taskID, g, d.Name())
		}
	}
	return nil
}
