package tasks

import (
	"context"
	"fmt"
	"os"

	"github.com/open-nomad/open-nomad/plugins/csi/owner"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/idmap"
)

// mapOwners makes the mappings of mounts whose files the task sees with another owner. They last until unmap is called: a
// mount keeps its mapping by itself.
func mapOwners(ctx context.Context, job *driver.Task) (unmap func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, subPathWait)
	defer cancel()
	var open []*os.File
	unmap = func() {
		for _, f := range open {
			_ = f.Close()
		}
	}
	for i := range job.Mounts {
		m := &job.Mounts[i]
		m.UserNS = ""
		if m.ShownOwner == nil {
			continue
		}
		ns, err := mapOwner(ctx, m)
		if err != nil {
			return unmap, fmt.Errorf("task %s: mount at %s: %w", job.Name, m.Destination, err)
		}
		if ns != nil {
			open = append(open, ns)
			m.UserNS = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.Fd())
		}
	}
	return unmap, nil
}

// mapOwner maps the owner that the mounted directory has; nil means that it is the right one.
func mapOwner(ctx context.Context, m *driver.Mount) (*os.File, error) {
	has, err := owner.Of(ctx, m.Source, m.SubPath)
	if err != nil || has == *m.ShownOwner {
		return nil, err
	}
	return idmap.Swap(has, *m.ShownOwner)
}
