package fingerprint

import (
	"cmp"
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
)

const defaultCgroupParent = "nomad.slice"

// probeCgroups detects version 1 or 2; a host with both counts as 1, since the controllers are there.
func probeCgroups(_ context.Context, c *Config, n *api.Node) error {
	const mountPoint = "/sys/fs/cgroup"
	var st unix.Statfs_t
	if err := unix.Statfs(mountPoint, &st); err != nil {
		return fmt.Errorf("look for cgroups: %w", err)
	}
	n.CgroupParent = cmp.Or(c.CgroupParent, defaultCgroupParent)
	n.Attributes["unique.cgroup.mountpoint"] = mountPoint
	n.Attributes["os.cgroups.version"] = "1"
	if st.Type == unix.CGROUP2_SUPER_MAGIC {
		n.Attributes["os.cgroups.version"] = "2"
	}
	return nil
}
