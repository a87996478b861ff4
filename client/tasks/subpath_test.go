package tasks

import (
	"errors"
	"os"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

func TestSubPathsAreMadeWhereTheVolumeIsWritable(t *testing.T) {
	root := t.TempDir()
	job := &driver.Task{Name: "t", Mounts: []driver.Mount{{Source: root, Destination: "a"}, {Source: root, Destination: "b", SubPath: "x//y/"}}}
	if err := subPaths(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(root + "/x/y"); err != nil || !st.IsDir() || job.Mounts[1].SubPath != "x/y" || job.Mounts[0].SubPath != "" {
		t.Errorf("%v, mounts %+v", err, job.Mounts)
	}
	job.Mounts = []driver.Mount{{Source: root, Destination: "a", SubPath: "none", ReadOnly: true}}
	if err := subPaths(t.Context(), job); !errors.Is(err, fault.NotFound) {
		t.Errorf("a missing directory of a read-only mount: %v", err)
	}
	job.Mounts = []driver.Mount{{Source: root, Destination: "a", SubPath: "../x"}}
	if err := subPaths(t.Context(), job); !errors.Is(err, fault.Invalid) {
		t.Errorf("a path that leaves the volume: %v", err)
	}
}
