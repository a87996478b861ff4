package volumes_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// A driver that says too early that a volume is staged publishes the empty directory of the staging path: a task would
// write to the disk of its node, and find nothing of it elsewhere.
func TestDirectoryOfTheStagingPathIsNotTakenForTheVolume(t *testing.T) {
	staging := filepath.Join("/state/csi/monolith/p", csiplugins.StagingDir, csiplugins.Hash("p", "v"))
	late := func(v *virtual) {
		if err := v.host.Bind("/data/v", staging, mounts.Flags{}); err != nil {
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

// A driver that never mounts what it says is staged is given up, with the reason.
func TestDriverThatNeverStagesIsGivenUp(t *testing.T) {
	inVirtualTime(t, fake.Config{NoMountAtStaging: true, PublishStaging: true}, func(t *testing.T, v *virtual) {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := v.svc.Up(ctx, workload("w"))
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "is no volume") {
			t.Errorf("up: %v", err)
		}
		if took := time.Since(begin); took < time.Minute || took > 5*time.Minute {
			t.Errorf("it was given up after %s", took)
		}
		v.down("w")
		v.untilReleased("w")
		v.clean()
		v.driver.Change(func(c *fake.Config) { c.NoMountAtStaging = false })
		v.up(workload("next"))
		v.down("next")
		v.clean()
	})
}

// What a driver believes to be staged, and a stranger has unmounted under those who use it, is there again for the next
// user, and those of before keep their mounts.
func TestStagingThatAStrangerHasUnmountedUnderItsUsersIsMendedFromTheirMounts(t *testing.T) {
	for name, believes := range map[string]bool{"a driver that believes it staged": true, "one that looks": false} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{PublishStaging: true, BelievesStaged: believes}, func(t *testing.T, v *virtual) {
				points := v.points(v.up(workload("w"))["a"].Source)
				if err := v.host.Unmount(points["staging"]); err != nil {
					t.Fatal(err)
				}
				for _, id := range []string{"next", "third"} {
					if on := v.on(v.up(workload(id))["a"].Source); on == nil || on.Root != "/data/v" {
						t.Errorf("%s has %+v", id, on)
					}
				}
				if on := v.on(points["target"]); on == nil || on.Root != "/data/v" {
					t.Errorf("the user of before has %+v", on)
				}
				if n := v.count("NodePublishVolume"); n != 3 {
					t.Errorf("it was published %d times: the directory too", n)
				}
				for _, id := range []string{"w", "next", "third"} {
					v.down(id)
					v.untilReleased(id)
				}
				v.clean()
			})
		})
	}
}

// What a driver believes to be staged, and a stranger has unmounted, is unstaged and staged anew.
func TestStagingThatAStrangerHasUnmountedIsMadeAnew(t *testing.T) {
	for name, known := range map[string]bool{"of an earlier try": false, "of a mount": true} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{PublishStaging: true, BelievesStaged: true}, func(t *testing.T, v *virtual) {
				if known {
					v.up(workload("w"))
				} else {
					v.driver.Script(fake.Fault{RPC: "NodeStageVolume", Times: 1, Code: codes.Internal, Text: "after it was mounted", Late: true})
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					_, err := v.svc.Up(ctx, workload("w"))
					if cancel(); err == nil {
						t.Fatal("the staging did not fail")
					}
				}
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
				if n := v.count("NodePublishVolume"); known && n != 2 {
					t.Errorf("it was published %d times: the directory too", n)
				}
				v.down("w")
				v.untilReleased("w")
				v.clean()
			})
		})
	}
}
