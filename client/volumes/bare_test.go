package volumes_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// A driver that says too early that a volume is staged publishes the empty directory of the staging path: a task would
// write to the disk of its node, and find nothing of it elsewhere.
func TestDirectoryOfTheStagingPathIsNotTakenForTheVolume(t *testing.T) {
	staging := filepath.Join("/state/csi/monolith/p", csiplugins.StagingDir, csiplugins.Hash("p", "v"))
	late := func(v *virtual) {
		if err := errors.Join(v.host.MakeDir(staging), v.host.Bind("/data/v", staging, mounts.Flags{})); err != nil {
			v.t.Error(err)
		}
	}
	for name, mend := range map[string]func(*virtual){
		"staged when it is asked for again": func(v *virtual) { v.driver.Change(func(c *fake.Config) { c.NoMountAtStaging = false }) },
		"staged late":                       late,
		"staged late, and right after that": func(v *virtual) {
			late(v)
			v.driver.Change(func(c *fake.Config) { c.NoMountAtStaging = false })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{NoMountAtStaging: true, PublishStaging: true}, func(t *testing.T, v *virtual) {
				early, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if m, err := v.svc.Up(early, workload("w")); err == nil {
					t.Fatalf("the allocation gets %+v of %s", m, v.on(m["a"].Source).Root)
				}
				if n := v.count("NodeStageVolume"); n < 2 {
					t.Errorf("staged %d times", n)
				}
				mend(v)
				if at := v.on(v.up(workload("w"))["a"].Source); at == nil || at.Root != "/data/v" {
					t.Errorf("%+v is mounted", at)
				}
				v.down("w")
				v.untilReleased("w")
				v.clean()
			})
		})
	}
}

// A staging that the driver made and a third party has unmounted is unstaged and staged again.
func TestStagingThatAThirdPartyHasUnmountedIsStagedAgain(t *testing.T) {
	inVirtualTime(t, fake.Config{PublishStaging: true, BelievesStaged: true}, func(t *testing.T, v *virtual) {
		v.up(workload("w"))
		v.stop()
		all, _ := v.host.Table()
		for _, e := range all {
			if err := v.host.Unmount(e.Point); err != nil {
				t.Fatal(err)
			}
		}
		v.start()
		v.knows(workload("w"))
		if at := v.on(v.up(workload("w"))["a"].Source); at == nil || at.Root != "/data/v" {
			t.Errorf("%+v is mounted", at)
		}
		if n := v.count("NodePublishVolume"); n != 2 {
			t.Errorf("it was published %d times: the directory too", n)
		}
		v.down("w")
		v.untilReleased("w")
		v.clean()
	})
}
