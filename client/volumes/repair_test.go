package volumes_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/mounthealth"
	"github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// users records what tasks were told.
type users struct {
	mu            sync.Mutex
	said          []string
	changed       chan struct{}
	refuse        error // restarts fail with it
	leaving, lost map[string]bool
}

func newUsers() *users {
	return &users{changed: make(chan struct{}), leaving: map[string]bool{}, lost: map[string]bool{}}
}

func (u *users) say(words ...string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.said = append(u.said, strings.Join(words, " "))
	close(u.changed)
	u.changed = make(chan struct{})
}

func (u *users) Tell(alloc, volume, kind, text string) { u.say(kind, alloc, volume, text) }

func (u *users) Restart(_ context.Context, alloc, volume string, all bool, _ string) error {
	u.mu.Lock()
	err := u.refuse
	u.mu.Unlock()
	u.say("restart", alloc, volume, strconv.FormatBool(all))
	return err
}

func (u *users) Signal(_ context.Context, alloc, volume, signal, _ string) error {
	u.say("signal", alloc, volume, signal)
	return nil
}

func (u *users) Leaving(alloc string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.leaving[alloc]
}

func (u *users) Lost(alloc string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lost[alloc]
}

func (u *users) leave(alloc string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.leaving[alloc] = true
}

func (u *users) count(prefix string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(u.said), func(s string) bool { return !strings.HasPrefix(s, prefix) }))
}

// until waits until something that begins so was said n times.
func (u *users) until(t *testing.T, n int, prefix string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		u.mu.Lock()
		changed := u.changed
		u.mu.Unlock()
		if u.count(prefix) >= n {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			u.mu.Lock()
			defer u.mu.Unlock()
			t.Fatalf("never %d times %q; said was %q", n, prefix, u.said)
		}
	}
}

// deadRig is a node that probes often, and a plugin whose volumes have the policy.
func deadRig(t *testing.T, policy string, c fake.Config) (*rig, *users) {
	t.Helper()
	u := newUsers()
	r := newRigWith(t, c, func(conf *volumes.Config) {
		conf.ProbeInterval, conf.Tasks = 20*time.Millisecond, u
	})
	r.servers.onClaim(withPolicy(policy))
	r.plugIn("plug")
	return r, u
}

// withPolicy answers claims with a volume of the policy.
func withPolicy(policy string) func(context.Context, *api.VolumeClaimRequest, *api.VolumeClaimResponse) error {
	return func(_ context.Context, _ *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
		out.Volume.OnMountDead = policy
		return nil
	}
}

// kill mounts a FUSE file system at the path whose server is gone: it answers ENOTCONN for ever.
func kill(t *testing.T, path string) {
	t.Helper()
	unix.Close(hang(t, path))
}

// hang mounts a FUSE file system whose server never answers; it dies when the descriptor is closed.
func hang(t *testing.T, path string) int {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no fuse here: %v", err)
	}
	opts := "fd=" + strconv.Itoa(fd) + ",rootmode=40000,user_id=0,group_id=0"
	if err := unix.Mount("dead", path, "fuse", 0, opts); err != nil {
		unix.Close(fd)
		t.Skipf("cannot mount fuse here: %v", err)
	}
	return fd
}

func writes(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(path, "f"), []byte("data"), 0o600); err != nil {
		t.Error(err)
	}
}

func TestDeadMountIsToldOnceAndAgainWhenItLives(t *testing.T) {
	r, u := deadRig(t, "", fake.Config{})
	at := r.up(workload("w"))["a"].Source
	kill(t, at)
	u.until(t, 1, mounthealth.EventUnhealthy+" w v")
	if err := unix.Unmount(at, 0); err != nil {
		t.Fatal(err)
	}
	u.until(t, 1, mounthealth.EventHealthy+" w v")
	if n := u.count(mounthealth.EventUnhealthy); n != 1 {
		t.Errorf("told %d times", n)
	}
	if n := r.count("NodePublishVolume"); n != 1 || u.count("restart")+u.count("signal") != 0 {
		t.Errorf("ignored means nothing is done: %d publishes, said %q", n, u.said)
	}
	writes(t, at)
	r.down("w")
}

func TestDeadMountIsPublishedAnew(t *testing.T) {
	for policy, all := range map[string]string{api.MountDeadRepublish: "false", api.MountDeadRestart: "true"} {
		t.Run(policy, func(t *testing.T) {
			r, u := deadRig(t, policy, fake.Config{})
			at := r.up(workload("w"))["a"].Source
			kill(t, at)
			u.until(t, 1, "restart w v "+all)
			writes(t, at)
			u.until(t, 1, mounthealth.EventHealthy)
			if n := r.count("NodeUnstageVolume"); n != 0 {
				t.Errorf("a living staging was unstaged %d times", n)
			}
			r.down("w")
			if n := r.mounted(); n != 0 {
				t.Errorf("%d mounts are left", n)
			}
		})
	}
}

func TestDeadMountSignals(t *testing.T) {
	r, u := deadRig(t, api.MountDeadSignal, fake.Config{})
	at := r.up(workload("w"))["a"].Source
	kill(t, at)
	u.until(t, 1, "signal w v SIGHUP")
	if n := r.count("NodePublishVolume"); n != 1 {
		t.Errorf("%d publishes", n)
	}
	r.down("w")
}

// staging is the path that the driver staged at.
func (r *rig) staging() string {
	c := r.driver.Calls("NodeStageVolume")
	return c[len(c)-1].Path
}

func TestDeadStagingIsStagedAnewForAllItsUsers(t *testing.T) {
	r, u := deadRig(t, api.MountDeadRepublish, fake.Config{})
	one, two := r.up(workload("one"))["a"].Source, r.up(workload("two"))["a"].Source
	for _, path := range []string{r.staging(), one, two} {
		kill(t, path)
	}
	u.until(t, 1, "restart one")
	u.until(t, 1, "restart two")
	writes(t, one)
	writes(t, two)
	if n := r.count("NodeStageVolume"); n != 2 {
		t.Errorf("staged %d times", n)
	}
	r.down("one")
	r.down("two")
	if n := r.mounted(); n != 0 {
		t.Errorf("%d mounts are left", n)
	}
}

func TestDeadStagingStaysUnderALivingUser(t *testing.T) {
	r, u := deadRig(t, api.MountDeadRepublish, fake.Config{})
	one, two := r.up(workload("one"))["a"].Source, r.up(workload("two"))["a"].Source
	kill(t, r.staging())
	kill(t, one)
	u.until(t, 1, mounthealth.EventUnhealthy+" one v volume v cannot be published again yet")
	if n := r.count("NodeUnstageVolume"); n != 0 {
		t.Error("unstaged under a living mount")
	}
	writes(t, two)
	r.down("two")
	u.until(t, 1, "restart one")
	writes(t, one)
	r.down("one")
}

func TestRepublishIsTriedUntilItWorks(t *testing.T) {
	r, u := deadRig(t, api.MountDeadRepublish, fake.Config{})
	at := r.up(workload("w"))["a"].Source
	r.driver.Script(
		fake.Fault{RPC: "NodeUnpublishVolume", Times: 2, Code: codes.Internal, Text: "busy"},
		fake.Fault{RPC: "NodePublishVolume", Times: 1, Code: codes.InvalidArgument, Text: "not now"},
	)
	kill(t, at)
	u.until(t, 1, "restart w")
	writes(t, at)
	if n := u.count(mounthealth.EventUnhealthy + " w v volume v cannot"); n == 0 || n > 2 {
		t.Errorf("failures were told %d times", n)
	}
	r.down("w")
}

func TestOwedRestartOutlivesTheAgent(t *testing.T) {
	r, u := deadRig(t, api.MountDeadRestart, fake.Config{})
	u.refuse = context.DeadlineExceeded
	at := r.up(workload("w"))["a"].Source
	kill(t, at)
	u.until(t, 2, "restart w")
	r.stop()
	u.mu.Lock()
	u.refuse, u.said = nil, nil
	u.mu.Unlock()
	r.start()
	r.up(workload("w"))
	u.until(t, 1, "restart w v true")
	r.down("w")
}

// A hung mount holds up neither the look at others nor the calls of others.
func TestHungMountIsNoticedAndBlocksNothing(t *testing.T) {
	r, u := deadRig(t, api.MountDeadRepublish, fake.Config{})
	r.driver.Storage().Add("other")
	at := r.up(workload("w"))["a"].Source
	fd := hang(t, at)
	closed := false
	defer func() {
		if !closed {
			unix.Close(fd)
		}
	}()
	u.until(t, 1, mounthealth.EventUnhealthy+" w v")
	r.up(workload("x", &api.VolumeRequest{Source: "other"}))
	r.down("x")
	u.until(t, 1, "restart w")
	unix.Close(fd)
	closed = true
	writes(t, at)
	r.down("w")
}

func TestUnmountedByAStrangerIsDead(t *testing.T) {
	r, u := deadRig(t, api.MountDeadRepublish, fake.Config{})
	at := r.up(workload("w"))["a"].Source
	if err := mounts.Unmount(at); err != nil {
		t.Fatal(err)
	}
	u.until(t, 1, mounthealth.EventUnhealthy+" w v")
	u.until(t, 1, "restart w")
	writes(t, at)
	r.down("w")
}

func TestMountingNamesTheTasksOfAVolume(t *testing.T) {
	a := workload("w", &api.VolumeRequest{Source: "v", PerAlloc: true}, &api.VolumeRequest{Source: "x"})
	mount := func(name string, volumes ...string) *api.Task {
		task := &api.Task{Name: name}
		for _, v := range volumes {
			task.VolumeMounts = append(task.VolumeMounts, &api.VolumeMount{Volume: v})
		}
		return task
	}
	a.Job.TaskGroups[0].Tasks = []*api.Task{mount("one", "a"), mount("none"), mount("both", "b", "a"), mount("x", "b"), mount("late", "${V}")}
	if got := volumes.Mounting(a, "v[0]"); !slices.Equal(got, []string{"one", "both", "late"}) {
		t.Errorf("tasks %q", got)
	}
	if got := volumes.Mounting(&api.Allocation{}, "v"); got != nil {
		t.Errorf("tasks %q of nothing", got)
	}
}

func TestCallsPerPluginAreBounded(t *testing.T) {
	const bound, allocs = 2, 5
	r := newRigWith(t, fake.Config{}, func(c *volumes.Config) { c.PluginCalls = bound })
	r.plugIn("plug")
	for i := range allocs {
		r.driver.Storage().Add("v" + strconv.Itoa(i))
	}
	const each = 100 * time.Millisecond
	r.driver.Script(fake.Fault{RPC: "NodeStageVolume", Delay: each})
	var all sync.WaitGroup
	for i := range allocs {
		all.Go(func() {
			if _, err := r.svc.Up(r.ctx(), workload("w"+strconv.Itoa(i), &api.VolumeRequest{Source: "v" + strconv.Itoa(i)})); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	calls := r.driver.Calls("NodeStageVolume")
	slices.SortFunc(calls, func(a, b fake.Call) int { return a.Began.Compare(b.Began) })
	for i := bound; i < len(calls); i++ {
		if gap := calls[i].Began.Sub(calls[i-bound].Began); gap < each {
			t.Errorf("call %d began %v after call %d, which takes %v: more than %d at once", i, gap, i-bound, each, bound)
		}
	}
	for i := range allocs {
		r.down("w" + strconv.Itoa(i))
	}
}

// A mount whose driver's answer was lost, and that then fails, is taken away before the volume is published again:
// drivers answer that what is mounted is published.
func TestMountThatFailedBeforeItWasUsedIsPublishedAnew(t *testing.T) {
	for name, c := range map[string]struct{ noStage, stagingToo bool }{"staging too": {false, true}, "target": {false, false}, "no staging": {true, false}} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{NoStage: c.noStage}, func(t *testing.T, v *virtual) {
				v.driver.Script(fake.Fault{RPC: "NodePublishVolume", Times: 1, Code: codes.Unavailable, Late: true})
				up := make(chan error, 1)
				go func() {
					_, err := v.svc.Up(t.Context(), workload("w"))
					up <- err
				}()
				v.until("it is published", func() bool {
					return v.count("NodePublishVolume") == 1 && v.on(v.driver.Calls("NodePublishVolume")[0].Path) != nil
				})
				at := v.driver.Calls("NodePublishVolume")[0].Path
				if c.stagingToo {
					v.host.Kill(v.driver.Calls("NodeStageVolume")[0].Path)
				}
				v.host.Kill(at)
				v.until("it is published anew", func() bool { return v.on(at) != nil && v.host.Statfs(at) == nil })
				if err := <-up; err != nil {
					t.Fatal(err)
				}
				v.down("w")
				v.clean()
			})
		})
	}
}

// The mount of a FUSE driver fails with the process that serves it: without another word of its volume it is published
// anew.
func TestFailedMountOfAFileSystemInAProcessIsPublishedAnew(t *testing.T) {
	for _, c := range []struct {
		fsType, policy string
		anew           bool
	}{
		{"fuse.s3fs", "", true},
		{"fuseblk", "", true},
		{"fuse", "", true},
		{"fuse.s3fs", api.MountDeadIgnore, false},
		{"ext4", "", false},
	} {
		t.Run(c.fsType+" "+c.policy, func(t *testing.T) {
			inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
				if err := v.host.MakeDir("/data"); err != nil {
					t.Fatal(err)
				}
				if err := v.host.Mount("0:77", c.fsType, "/data", mounts.Flags{}); err != nil {
					t.Fatal(err)
				}
				v.servers.onClaim(withPolicy(c.policy))
				at := v.up(workload("w"))["a"].Source
				if e := v.on(at); e == nil || e.FSType != c.fsType {
					t.Fatalf("mounted is %+v", e)
				}
				v.host.Kill(at)
				v.until("the failure is told", func() bool { return v.users.count(mounthealth.EventUnhealthy+" w v") == 1 })
				time.Sleep(time.Minute)
				if anew := v.host.Statfs(at) == nil; anew != c.anew || v.users.count("restart w v") > 0 != c.anew {
					t.Errorf("it is published anew: %v; the tasks were told %q", anew, v.users.said)
				}
				v.down("w")
			})
		})
	}
}
