package mounts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Elsewhere returns the id of a process in another mount namespace that has the files of a mount, or some of them; 0 when
// there is none. A copy of the mount that goes when the mount does is none. Processes that this one may not look at have more
// privileges than it, so that it has not started them: they are passed over.
func Elsewhere(m *Entry) (pid int, err error) {
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return 0, fmt.Errorf("look at mount namespaces: %w", err)
	}
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("look at mount namespaces: %w", err)
	}
	seen := map[string]bool{own: true}
	for _, d := range dirs {
		id, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join("/proc", d.Name())
		name, err := os.Readlink(filepath.Join(dir, "ns/mnt"))
		if err == nil && seen[name] {
			continue
		}
		has := false
		if err == nil {
			seen[name] = true
			has, err = hasFilesOf(m, filepath.Join(dir, "mountinfo"))
		}
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL): // it has ended
			delete(seen, name)
		case errors.Is(err, fs.ErrPermission):
			delete(seen, name)
		case err != nil:
			return 0, fmt.Errorf("look at the mounts of process %d: %w", id, err)
		case has:
			return id, nil
		}
	}
	return 0, nil
}

func hasFilesOf(m *Entry, table string) (bool, error) {
	f, err := os.Open(table)
	if err != nil {
		return false, err
	}
	defer f.Close()
	found, err := mountinfo.GetMountsFromReader(f, func(i *mountinfo.Info) (skip, stop bool) {
		same := fmt.Sprintf("%d:%d", i.Major, i.Minor) == m.Dev && (i.Root == m.Root || strings.HasPrefix(i.Root, strings.TrimSuffix(m.Root, "/")+"/"))
		goesAlong := i.Mountpoint == m.Point && (strings.Contains(i.Optional, "master:") || strings.Contains(i.Optional, "shared:"))
		return !same || goesAlong, same && !goesAlong
	})
	return len(found) > 0, err
}
