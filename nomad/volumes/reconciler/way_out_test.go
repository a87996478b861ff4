package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// obstacle is something that stands in the way of the volume "v" for ever.
type obstacle struct {
	name  string
	build func(*rig, *volumestest.Node)
	// goal is what the operator wants: to delete "v", to forget it, or to use it on n2.
	goal string
}

// named are the commands that a refusal names.
var named = regexp.MustCompile("[`\"](nomad [^`\"]+)[`\"]")

// TestWhateverIsInTheWayIsEndedByTheCommandThatItNames follows nothing but the commands of refusals, of what a claim
// is told that waits, and of the list of attachments.
func TestWhateverIsInTheWayIsEndedByTheCommandThatItNames(t *testing.T) {
	t.Parallel()
	for _, o := range obstacles {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(l *reconciler.Limits) {
					l.AttachTimeout, l.MakeTimeout, l.MakeTimeoutMax = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
				})
				r.Node("n1", volumestest.NodeOnly)
				n := r.Node("n2")
				r.Register(volumestest.Spec("v"))
				o.build(r, n)
				var told []string
				for range 40 {
					seen := r.State.Read().Index()
					err := r.reach(o.goal)
					if err == nil {
						return
					}
					told = append(told, err.Error())
					for err != nil { // what a command names that is refused itself
						found := named.FindAllStringSubmatch(err.Error(), -1)
						found = slices.DeleteFunc(found, func(m []string) bool { return strings.Contains(m[1], "volume create") })
						if len(found) == 0 {
							t.Fatalf("nothing is named by %q; %s", err, r.Describe())
						}
						if err = r.run(found[len(found)-1][1]); err != nil {
							told = append(told, err.Error())
							if len(told) > 80 {
								break
							}
						}
					}
					r.moves(seen)
				}
				t.Fatalf("no way out:\n%s\n%s", strings.Join(slices.Compact(told), "\n"), r.Describe())
			})
		})
	}
}

// reach tries what the operator wants.
func (r *rig) reach(goal string) error {
	switch goal {
	case "delete":
		return r.Delete("v")
	case "forget":
		_, err := r.Service.Deregister(r.Context(), &api.VolumeDeregisterRequest{VolumeID: "v"})
		if errors.Is(err, fault.NotFound) {
			return nil
		}
		return err
	}
	err := r.use(goal)
	list, _ := r.Service.Attachments(r.Context(), &api.VolumeAttachmentListRequest{VolumeID: "v"})
	if err != nil && named.FindString(err.Error()) == "" && len(list.Attachments) > 0 {
		err = fmt.Errorf("%w; `%s`", err, list.Attachments[0].Remedy)
	}
	return err
}

// use has another job use the volume on a node.
func (r *rig) use(goal string) error {
	if r.State.Read().Alloc("want") == nil {
		if err := r.Place(volumestest.Alloc("want", goal, "v", writer, volumestest.Of("other"))); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(r.T.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := r.Service.Claim(ctx, &api.VolumeClaimRequest{VolumeID: "v", AllocID: "want", NodeID: goal, NodeSecret: "secret-" + goal})
	return err
}

// moves waits for a change, if there is to be one.
func (r *rig) moves(seen uint64) {
	ctx, cancel := context.WithTimeout(r.T.Context(), 100*time.Millisecond)
	defer cancel()
	keys := []state.Key{state.TableKey(state.TableAttachments), state.TableKey(state.TableClaims), state.TableKey(state.TableVolumes)}
	_ = state.Until(ctx, r.State, keys, func(tx *state.Txn) bool { return tx.Index() > seen })
}

// run does what a command of the operator asks the servers for.
func (r *rig) run(command string) (err error) {
	words := strings.Fields(command)
	force := slices.Contains(words, "-force")
	flags := map[string]string{}
	var args []string
	for i := 1; i < len(words); i++ {
		switch w := words[i]; {
		case w == "-force":
		case strings.HasPrefix(w, "-"):
			flags[w] = words[i+1]
			i++
		default:
			args = append(args, w)
		}
	}
	last := args[len(args)-1]
	switch verb := strings.Join(args[:2], " "); verb {
	case "job stop":
		r.stopJob(last)
	case "volume detach":
		q := &api.VolumeDetachRequest{NodeID: last, Force: force, PluginID: flags["-plugin"], ExternalID: flags["-external-id"]}
		if len(args) == 4 {
			q.VolumeID = args[2]
		}
		_, err = r.Service.Detach(r.Context(), q)
	case "volume deregister":
		_, err = r.Service.Deregister(r.Context(), &api.VolumeDeregisterRequest{VolumeID: last, Force: force})
	case "volume delete":
		err = r.Delete(last)
	case "volume snapshot":
		_, err = r.deleteSnapshot(last, force)
	default:
		r.T.Fatalf("%q is no command", command)
	}
	return err
}

// stopJob ends the allocations of a job; nodes that are there report that.
func (r *rig) stopJob(job string) {
	r.T.Helper()
	tx := r.State.Read()
	for c := range tx.Claims() {
		if c.JobID != job {
			continue
		}
		r.Ends(c.AllocID, api.AllocClientStatusComplete)
	}
}

// never has a method hang for ever.
func never(n *volumestest.Node, method string) { n.Hold(method) }

func noAnswer(n *volumestest.Node, method string) { n.Says(method, codes.Unavailable, "later") }

func inUse(r *rig) {
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
}

func unmounted(r *rig) {
	inUse(r)
	r.Ends("a1", api.AllocClientStatusComplete)
	if err := r.Report("v", "a1", "n1", ""); err != nil {
		r.T.Fatal(err)
	}
}

func withoutPlugin(r *rig) {
	for _, id := range []string{"n1", "n2"} {
		r.Change(id, func(n *api.Node) { n.CSIControllerPlugins, n.CSINodePlugins = nil, nil })
	}
}

func purge(r *rig) { r.Edit(func(tx *state.Txn) { tx.DeleteNode("n1") }) }

func (r *rig) copying() {
	w := volumestest.Made("w")
	w.CloneID = "ext-v"
	_ = r.Create(w)
}

var obstacles = []obstacle{
	{"an allocation runs, and its node never unmounts", func(r *rig, _ *volumestest.Node) {
		never(r.Nodes.Of("n1"), "NodeVolume.Detach")
		inUse(r)
	}, "delete"},
	{"a node is down", func(r *rig, _ *volumestest.Node) { inUse(r); r.Down("n1", 0) }, "n2"},
	{"a node is down that is waited for", func(r *rig, n *volumestest.Node) {
		noAnswer(n, "Controller.Unpublish")
		inUse(r)
		r.Down("n1", 0)
	}, "delete"},
	{"a node is purged", func(r *rig, n *volumestest.Node) { noAnswer(n, "Controller.Unpublish"); inUse(r); purge(r) }, "delete"},
	{"an attach fails for ever", func(r *rig, n *volumestest.Node) {
		noAnswer(n, "Controller.Publish")
		noAnswer(n, "Controller.Unpublish")
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	}, "delete"},
	{"an attach hangs", func(r *rig, n *volumestest.Node) {
		never(n, "Controller.Publish")
		never(n, "Controller.Unpublish")
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	}, "delete"},
	{"a detach fails for ever", func(r *rig, n *volumestest.Node) { noAnswer(n, "Controller.Unpublish"); unmounted(r) }, "delete"},
	{"a detach hangs, for the next user", func(r *rig, n *volumestest.Node) { never(n, "Controller.Unpublish"); unmounted(r) }, "n2"},
	{"a detach hangs of a node that is purged", func(r *rig, n *volumestest.Node) { never(n, "Controller.Unpublish"); unmounted(r); purge(r) }, "delete"},
	{"the plugin is gone before the detach", func(r *rig, n *volumestest.Node) {
		noAnswer(n, "Controller.Unpublish")
		unmounted(r)
		withoutPlugin(r)
	}, "forget"},
	{"a mount of before is left", func(r *rig, _ *volumestest.Node) {
		never(r.Nodes.Of("n1"), "NodeVolume.Detach")
		r.Change("n1", func(n *api.Node) {
			n.StaleMounts = []*api.StaleMount{{Namespace: "default", VolumeID: "v", AllocID: "old", PluginID: "p", ExternalID: "ext-v"}}
		})
	}, "n1"},
	{"a snapshot fails for ever", func(r *rig, n *volumestest.Node) { noAnswer(n, "Controller.Snapshot"); _, _ = r.Snapshot("s") }, "delete"},
	{"a snapshot hangs", func(r *rig, n *volumestest.Node) { never(n, "Controller.Snapshot"); _, _ = r.Snapshot("s") }, "delete"},
	{"a snapshot is never ready", func(r *rig, n *volumestest.Node) { n.ReadyAfter(1 << 30); _, _ = r.Snapshot("s") }, "delete"},
	{"a copy fails for ever", func(r *rig, n *volumestest.Node) { noAnswer(n, "Controller.Create"); r.copying() }, "delete"},
	{"a copy hangs", func(r *rig, n *volumestest.Node) { never(n, "Controller.Create"); r.copying() }, "delete"},
	{"another specification is there", func(r *rig, _ *volumestest.Node) {
		w := volumestest.Spec("w")
		w.ExternalID = "ext-v"
		r.Register(w)
	}, "delete"},
	{"an expansion fails for ever", func(r *rig, n *volumestest.Node) { noAnswer(n, "Controller.Expand"); r.growing() }, "forget"},
	{"a deletion fails for ever", func(r *rig, n *volumestest.Node) { noAnswer(n, "Controller.Delete"); _ = r.Delete("v") }, "forget"},
	{"a deletion hangs", func(r *rig, n *volumestest.Node) { never(n, "Controller.Delete"); _ = r.Delete("v") }, "forget"},
	{"the plugin is gone before the deletion", func(r *rig, n *volumestest.Node) {
		noAnswer(n, "Controller.Delete")
		_ = r.Delete("v")
		withoutPlugin(r)
	}, "forget"},
}

func (r *rig) growing() {
	v := volumestest.Spec("v")
	v.RequestedCapacityMin = 300
	_, _ = r.Service.Register(r.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{v}})
}
