package fingerprint

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
)

func probeStorage(_ context.Context, c *Config, n *api.Node) error {
	dir := cmp.Or(c.DataDir, "/")
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("ask for the storage of %s: %w", dir, err)
	}
	total := st.Blocks * uint64(st.Bsize)
	if c.DiskTotalMB > 0 {
		total = uint64(c.DiskTotalMB) << 20
	}
	n.Attributes["unique.storage.bytestotal"] = strconv.FormatUint(total, 10)
	n.Attributes["unique.storage.bytesfree"] = strconv.FormatUint(st.Bavail*uint64(st.Bsize), 10)
	n.NodeResources.Disk.DiskMB = int64(total >> 20)
	volume, err := volumeOf(dir)
	if err != nil {
		return fmt.Errorf("find the volume of %s: %w", dir, err)
	}
	n.Attributes["unique.storage.volume"] = volume
	return nil
}

// volumeOf names the source of the mount that holds dir: the last mount of those with the longest path.
func volumeOf(dir string) (string, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.ParentsFilter(dir))
	if err != nil {
		return "", err
	}
	var best *mountinfo.Info
	for _, m := range mounts {
		if best == nil || len(m.Mountpoint) >= len(best.Mountpoint) {
			best = m
		}
	}
	if best == nil {
		return "", fmt.Errorf("no mount holds %s", dir)
	}
	return best.Source, nil
}
