package volumes_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// points are where the volume of an allocation is published and staged.
func (v *virtual) points(target string) map[string]string {
	v.t.Helper()
	out := map[string]string{"target": target}
	all, _ := v.host.Table()
	for _, e := range all {
		if strings.Contains(e.Point, "/"+csiplugins.StagingDir+"/") {
			out["staging"] = e.Point
		}
	}
	if out["staging"] == "" {
		v.t.Fatal("nothing is staged")
	}
	return out
}

// Strangers unmount what is published and staged, or mount something over it. The tasks that start after that have the volume,
// never what is there in its place, and it can be unmounted.
func TestWhatStrangersDoToMountsIsSeenAndMended(t *testing.T) {
	unmount := func(v *virtual, path string) error { return v.host.Unmount(path) }
	cover := func(v *virtual, path string) error { return v.host.Mount("9:9", "tmpfs", path, mounts.Flags{}) }
	twice := func(v *virtual, path string) error {
		if err := cover(v, path); err != nil {
			return err
		}
		return v.host.Bind("/data/other", path, mounts.Flags{})
	}
	for what, do := range map[string]func(*virtual, string) error{"unmount": unmount, "cover": cover, "cover twice": twice} {
		for where, at := range map[string][]string{"the target": {"target"}, "the staging": {"staging"}, "both": {"target", "staging"}} {
			for name, restarted := range map[string]bool{"": false, ", then the agent is started again": true} {
				t.Run(what+" "+where+name, func(t *testing.T) {
					inVirtualTime(t, fake.Config{PublishStaging: true}, func(t *testing.T, v *virtual) {
						points := v.points(v.up(workload("w"))["a"].Source)
						for _, p := range at {
							if err := do(v, points[p]); err != nil {
								t.Fatal(err)
							}
						}
						if err := v.svc.Mounted("w"); (err != nil) != (at[0] == "target") {
							t.Errorf("mounted: %v", err)
						}
						if restarted {
							v.stop()
							v.start()
							v.knows(workload("w"))
						}
						if what != "unmount" && where == "the staging" { // others use the volume, so that it stays staged
							ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
							_, err := v.svc.Up(ctx, workload("next"))
							if cancel(); err == nil || !strings.Contains(err.Error(), "is mounted over the volume") {
								t.Errorf("up on what is covered: %v", err)
							}
							for on := v.on(points["staging"]); on.Root != "/data/v"; on = v.on(points["staging"]) {
								if err := v.host.Remove(on); err != nil {
									t.Fatal(err)
								}
							}
						}
						for _, id := range []string{"w", "next", "w"} {
							source := v.up(workload(id))["a"].Source
							if on := v.on(source); on == nil || on.Root != "/data/v" {
								t.Errorf("%s has %+v at %s", id, on, source)
							}
							if err := v.svc.Mounted(id); err != nil {
								t.Errorf("mounted: %v", err)
							}
						}
						v.down("w")
						v.down("next")
						v.untilReleased("w")
						v.untilReleased("next")
						v.clean()
					})
				})
			}
		}
	}
}

// shares counts how often mounts below the root were shared.
type shares struct {
	mounts.Host
	n    atomic.Int64
	fail atomic.Pointer[error]
}

func (s *shares) Share(dir string) error {
	s.n.Add(1)
	if err := s.fail.Load(); err != nil {
		return *err
	}
	return s.Host.Share(dir)
}

// Where mounts cannot be shared, as on a private one with others inside, volumes are mounted, and the node says once what
// follows and when that is over.
func TestMountsThatCannotBeSharedAreTold(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.stop()
		host := &shares{Host: v.host}
		v.conf.Host = host
		why := errors.New("/ is private: mount --make-shared / shares both")
		host.fail.Store(&why)
		v.start()
		told := func() (all []string) {
			v.mu.Lock()
			defer v.mu.Unlock()
			for _, e := range v.events {
				if e.Message == "Share mounts with tasks" {
					all = append(all, e.Details["success"]+e.Details["error"])
				}
			}
			return all
		}
		if all := told(); len(all) > 0 {
			t.Errorf("told without a volume: %q", all)
		}
		v.up(workload("w"))
		v.up(workload("next"))
		if all := told(); len(all) != 1 || all[0] != "false"+why.Error() {
			t.Errorf("told: %q", all)
		}
		host.fail.Store(nil)
		v.up(workload("third"))
		if all := told(); len(all) != 2 || all[1] != "true" {
			t.Errorf("told: %q", all)
		}
		for _, id := range []string{"w", "next", "third"} {
			v.down(id)
		}
		v.clean()
	})
}

// A stranger may make private what tasks copy: unmounts would not reach their copies. It is shared again before a volume is
// mounted.
func TestMountsAreSharedAgainBeforeAVolumeIsMounted(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.stop()
		host := &shares{Host: v.host}
		v.conf.Host = host
		v.start()
		for _, id := range []string{"w", "next"} {
			before := host.n.Load()
			v.up(workload(id))
			if host.n.Load() == before {
				t.Errorf("%s: nobody looked", id)
			}
		}
		v.down("w")
		v.down("next")
		v.clean()
	})
}

// The servers give a volume to another allocation on this node when they gave the first one's claim up
// while the node was away; its mounts may still be here.
func TestVolumeOfOneUserWaitsForMountsOfAClaimThatWasGivenUp(t *testing.T) {
	for _, mode := range []api.AccessMode{api.AccessSingleNodeWriter, api.AccessSingleNodeReader, api.AccessSingleNodeSingle} {
		t.Run(string(mode), func(t *testing.T) {
			r := newRig(t, fake.Config{})
			r.plugIn("plug")
			r.servers.onClaim(func(_ context.Context, _ *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
				out.Claim.AccessMode = mode
				return nil
			})
			r.up(workload("old"))
			done := make(chan error, 1)
			go func() {
				_, err := r.svc.Up(r.ctx(), workload("new"))
				done <- err
			}()
			r.servers.until(t, "the second claim is told why it waits", func() bool { return len(r.servers.failures) > 0 })
			if n := r.count("NodePublishVolume"); n != 1 {
				t.Fatalf("%d times published while the first has it", n)
			}
			r.down("old")
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if n := r.count("NodePublishVolume"); n != 2 {
				t.Errorf("%d times published in the end", n)
			}
			r.down("new")
		})
	}
}

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
