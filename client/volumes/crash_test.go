package volumes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

var errKilled = errors.New("the agent was killed")

// death is the kill of an agent process after a number of steps: records, calls of plugins and of servers.
type death struct {
	mu    sync.Mutex
	after int // 0 is never
	steps []string
	dead  bool
	agent context.Context
	kill  context.CancelFunc
}

func (d *death) step(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return
	}
	if d.steps = append(d.steps, what); len(d.steps) == d.after {
		d.dead = true
		d.kill()
	}
}

func (d *death) isDead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

// again is another agent process; end ends what works in it beside.
func (d *death) again(ctx context.Context, end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var cancel context.CancelFunc
	d.agent, cancel = context.WithCancel(ctx)
	d.kill, d.dead = func() { cancel(); end() }, false
}

// mortalBucket, mortalHost and mortalServers are what a dead agent reaches no more.
type mortalBucket struct {
	csiplugins.Bucket
	d *death
}

func (b mortalBucket) Put(key string, value []byte) error {
	if b.d.isDead() {
		return errKilled
	}
	err := b.Bucket.Put(key, value)
	b.d.step("put " + key)
	return err
}

func (b mortalBucket) Delete(key string) error {
	if b.d.isDead() {
		return errKilled
	}
	err := b.Bucket.Delete(key)
	b.d.step("delete " + key)
	return err
}

type mortalHost struct {
	mounts.Host
	d *death
}

func (h mortalHost) Remove(m *mounts.Entry) error {
	if h.d.isDead() {
		return errKilled
	}
	return h.Host.Remove(m)
}

func (h mortalHost) Detach(m *mounts.Entry) error {
	if h.d.isDead() {
		return errKilled
	}
	return h.Host.Detach(m)
}

func (h mortalHost) RemoveLeaf(path string) error {
	if h.d.isDead() {
		return errKilled
	}
	defer h.d.step("remove " + path)
	return h.Host.RemoveLeaf(path)
}

type mortalServers struct {
	wire.Caller
	d *death
}

func (s mortalServers) Invoke(ctx context.Context, method string, req, resp any) error {
	if s.d.isDead() {
		return errKilled
	}
	err := s.Caller.Invoke(ctx, method, req, resp)
	s.d.step(method)
	if s.d.isDead() {
		return errKilled
	}
	return err
}

// two are allocations that use one volume; up and over say how far each has come.
type two struct {
	v        *virtual
	d        *death
	up, over map[string]bool
	at       map[string]string
}

// start begins an agent process, and makes known what runs.
func (n *two) start() {
	n.d.again(n.v.t.Context(), func() { n.v.agent() })
	n.v.start()
	known := map[string]volumes.Known{}
	for id := range n.up {
		known[id] = volumes.Known{Alloc: workload(id), Ended: n.over[id]}
	}
	plug := pluginOf("plug-" + n.v.kind)
	known[plug.ID] = volumes.Known{Alloc: plug}
	n.v.svc.Restored(known)
	n.v.settled()
}

// do does something as agents do, one after the other until none is killed.
func (n *two) do(what func(ctx context.Context, id string) error, ids ...string) {
	n.v.t.Helper()
	for {
		var all sync.WaitGroup
		errs := make([]error, len(ids))
		for i, id := range ids {
			all.Go(func() { errs[i] = what(n.d.agent, id) })
		}
		all.Wait()
		synctest.Wait()
		if !n.d.isDead() {
			if err := errors.Join(errs...); err != nil {
				n.v.t.Fatal(err)
			}
			break
		}
		n.v.stop()
		n.start()
	}
	for id, at := range n.at {
		if n.up[id] && !n.over[id] && n.v.on(at) == nil {
			n.v.t.Errorf("allocation %s has lost its mount", id)
		}
	}
}

func (n *two) bringUp(ids ...string) {
	n.v.t.Helper()
	var mu sync.Mutex
	for _, id := range ids {
		n.up[id] = true
	}
	n.do(func(ctx context.Context, id string) error {
		m, err := n.v.svc.Up(ctx, workload(id))
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			n.at[id] = m["a"].Source
		}
		return err
	}, ids...)
}

func (n *two) takeDown(ids ...string) {
	n.v.t.Helper()
	for _, id := range ids {
		n.over[id] = true
	}
	n.do(func(ctx context.Context, id string) error {
		for n.d.agent.Err() == nil {
			if err := n.v.svc.Down(ctx, id); err == nil {
				return nil
			}
			time.Sleep(time.Second)
		}
		return errKilled
	}, ids...)
}

// An agent may be killed between any two steps: what it leaves is taken up, no allocation that runs loses its mount, and
// in the end nothing is left.
func TestAgentIsKilledAtEachStepOfTwoUsersOfAVolume(t *testing.T) {
	for name, play := range map[string]func(*two){
		"one after the other": func(n *two) {
			n.bringUp("w1")
			n.bringUp("w2")
			n.takeDown("w1")
			n.takeDown("w2")
		},
		"at once": func(n *two) {
			n.bringUp("w1", "w2")
			n.takeDown("w1", "w2")
		},
		"one comes as the other goes": func(n *two) {
			n.bringUp("w1")
			n.over["w1"], n.up["w2"] = true, true
			n.do(func(ctx context.Context, id string) error {
				if id == "w1" {
					for n.d.agent.Err() == nil {
						if err := n.v.svc.Down(ctx, id); err == nil {
							return nil
						}
						time.Sleep(time.Second)
					}
					return errKilled
				}
				_, err := n.v.svc.Up(ctx, workload(id))
				return err
			}, "w1", "w2")
			n.takeDown("w2")
		},
	} {
		for kind, c := range map[string]fake.Config{"staged": {Deaf: true}, "a session": {Deaf: true, NoMountAtStaging: true}, "published only": {Deaf: true, NoStage: true}} {
			t.Run(name+", "+kind, func(t *testing.T) {
				after, over := 1, false
				for ; !over; after++ {
					t.Run(fmt.Sprintf("step %d", after), func(t *testing.T) { over = playKilled(t, c, after, play) })
				}
				if after < 15 {
					t.Errorf("there were %d steps", after)
				}
			})
		}
	}
}

// playKilled plays with an agent that is killed once, and reports whether that was never.
func playKilled(t *testing.T, c fake.Config, after int, play func(*two)) (never bool) {
	inVirtualTime(t, c, func(t *testing.T, v *virtual) {
		v.stop()
		d := &death{}
		v.driver.Change(func(c *fake.Config) {
			c.Pace = func(call fake.Call) time.Duration {
				if slices.Contains([]string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"}, call.RPC) {
					d.step(call.RPC)
				}
				return time.Second
			}
		})
		v.conf.Journal, v.conf.Host = mortalBucket{v.journal, d}, mortalHost{v.host, d}
		v.conf.Servers = mortalServers{v.servers, d}
		n := &two{v: v, d: d, up: map[string]bool{}, over: map[string]bool{}, at: map[string]string{}}
		n.start()
		d.after, d.steps = after, nil
		play(n)
		never = len(d.steps) < after
		v.until("all is over", func() bool { return v.nothing() && v.forgotten() })
		for id := range n.up {
			if !v.released(id) {
				t.Errorf("the servers do not know that %s has given the volume back", id)
			}
		}
		v.clean()
		if t.Failed() && !never {
			t.Logf("killed after %s", d.steps[after-1])
		}
	})
	return never
}

// eachAnswer plays every code at each call of the node: quick and slow, before its work and after it.
func eachAnswer(t *testing.T, c fake.Config, play func(*testing.T, *virtual)) {
	for _, rpc := range []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"} {
		for i, f := range fake.EveryFault(rpc, 40*time.Second) {
			if i%eachOf != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s %s late=%v %s", rpc, f.Code, f.Late, f.Delay), func(t *testing.T) {
				inVirtualTime(t, c, func(t *testing.T, v *virtual) {
					v.driver.Script(f)
					play(t, v)
					v.untilReleased("w")
					v.clean()
				})
			})
		}
	}
}

// Whatever the driver answers, once, to a call of the node: what was mounted is gone in the end, at the driver, in the
// mount table and in the journal, and the servers hear of it after that.
func TestEveryAnswerLeavesACleanNode(t *testing.T) {
	for name, c := range map[string]fake.Config{"mounts": {}, "sessions": {NoMountAtStaging: true}, "no staging": {NoStage: true}} {
		t.Run(name, func(t *testing.T) {
			eachAnswer(t, c, func(t *testing.T, v *virtual) {
				if m, err := v.svc.Up(t.Context(), workload("w")); err == nil && v.on(m["a"].Source) == nil {
					t.Error("it is said to be mounted, and is not")
				}
				_ = v.svc.Down(t.Context(), "w")
			})
		})
	}
}

// The same with an agent that dies in the middle of it, and another that knows only what the journal says.
func TestAgentThatDiesAtAnyAnswerLeavesACleanNode(t *testing.T) {
	for _, after := range []time.Duration{0, 10 * time.Millisecond, 20 * time.Second, time.Minute} {
		t.Run(after.String(), func(t *testing.T) {
			eachAnswer(t, fake.Config{}, func(t *testing.T, v *virtual) {
				ctx, die := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					if _, err := v.svc.Up(ctx, workload("w")); err == nil || ctx.Err() == nil {
						_ = v.svc.Down(ctx, "w")
					}
				}()
				time.Sleep(after)
				die()
				<-ended
				v.driver.Storage().Excuse("fake-node", true) // what it was doing may go on beside what comes next
				v.stop()
				v.start()
				v.svc.Restored(map[string]volumes.Known{"plug-" + v.kind: {}})
				if rows, _ := v.journal.All(); len(rows) == 0 {
					v.servers.mu.Lock()
					v.servers.released = append(v.servers.released, "w") // it had ended before, or had not begun
					v.servers.mu.Unlock()
				}
			})
		})
	}
}
