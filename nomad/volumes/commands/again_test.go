package commands_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// again is a command that comes once more.
type again struct {
	name string
	// make makes the command, and what it is about.
	make func(*bed) fsm.Command
	// then ends what the command was about, and begins the same anew where that can be; nil for what users ask for anew
	// by the same words.
	then func(*bed)
}

// TestACommandThatComesOnceMoreChangesNothing applies each command twice: at once, and late, when its row is gone or is
// another one. A server that was started from a snapshot answers as one that was there.
func TestACommandThatComesOnceMoreChangesNothing(t *testing.T) {
	t.Parallel()
	seen := map[fsm.Kind]bool{}
	for _, a := range repeated {
		b := newBed(t)
		cmd := a.make(b)
		seen[cmd.Kind()] = true
		t.Run(a.name, func(t *testing.T) {
			b.t = t
			b.must(cmd)
			first := b.rows()
			_, _ = b.do(cmd)
			if now := b.rows(); now != first {
				t.Errorf("at once it changes\n%s\nto\n%s", first, now)
			}
			if a.then == nil {
				return
			}
			a.then(b)
			before, other := b.rows(), b.restarted()
			_, _ = b.do(cmd)
			if now := b.rows(); now != before {
				t.Errorf("late it changes\n%s\nto\n%s", before, now)
			}
			before = other.rows()
			_, _ = other.do(cmd)
			if now := other.rows(); now != before {
				t.Errorf("on a server that was started it changes\n%s\nto\n%s", before, now)
			}
		})
	}
	registry := fsm.NewRegistry(commands.All)
	others := fsm.NewRegistry().Kinds() // those of the log itself
	for _, k := range registry.Kinds() {
		if !seen[k] && !slices.Contains(others, k) {
			t.Errorf("%T is not tried", registry.New(k))
		}
	}
}

// rows are all rows that commands on volumes write, without the indexes at which they changed.
func (b *bed) rows() string {
	tx := b.state.Read()
	var all []any
	for v := range tx.Volumes(api.AllNamespaces) {
		n := *v
		n.ModifyIndex = 0
		all = append(all, n, n.Provision, n.Secrets)
	}
	for c := range tx.Claims() {
		n := *c
		n.ModifyIndex = 0
		all = append(all, n)
	}
	for a := range tx.Attachments() {
		n := *a
		n.ModifyIndex = 0
		all = append(all, n, n.Secrets)
	}
	for i := range tx.SnapshotIntents() {
		n := *i
		n.ModifyIndex = 0
		all = append(all, n, n.Secrets)
	}
	for n := range tx.Nodes() {
		all = append(all, n.ID, n.StaleMounts, n.CSILimits)
	}
	all = append(all, tx.Rollback())
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// restarted is a server that was started from a snapshot of the state.
func (b *bed) restarted() *bed {
	b.t.Helper()
	var saved bytes.Buffer
	s := state.New()
	err := b.state.Read().Dump(&saved)
	if err == nil {
		err = s.Restore(&saved)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return &bed{t: b.t, state: s}
}

func (b *bed) index() uint64 { return b.state.Read().Index() }

func (b *bed) forget(id string) {
	b.t.Helper()
	b.must(&commands.Deregister{Namespace: "default", ID: id})
}

// published places an allocation on n1 whose volume "v" is attached.
func (b *bed) published(alloc string) {
	b.t.Helper()
	b.mustPlace(alloc, "n1", "v")
	b.must(b.attached(func(a *commands.Attached) { a.Published = true }))
}

// attached is an answer to the call that the attachment of "x" to n1 waits for.
func (b *bed) attached(change func(*commands.Attached)) *commands.Attached {
	b.t.Helper()
	tx := b.state.Read()
	row := cmp.Or(tx.Attachment("p", "x", "n1"), tx.WrittenOffTo("p", "x", "n1"))
	if row == nil {
		b.t.Fatal("nothing is attached to n1")
	}
	a := &commands.Attached{PluginID: "p", ExternalID: "x", NodeID: "n1", Fence: row.Fence}
	change(a)
	return a
}

// over ends an allocation, its mount and its attachment.
func (b *bed) over(alloc string) {
	b.t.Helper()
	b.ended(alloc)
	if c := b.state.Read().Claim("default", "v", alloc, ""); c != nil && c.State == api.ClaimReleasing {
		b.must(report(alloc))
	}
	if b.state.Read().Attachment("p", "x", "n1") != nil {
		b.must(b.attached(func(*commands.Attached) {}))
	}
}

func (b *bed) ended(alloc string) {
	b.t.Helper()
	b.edit(func(tx *state.Txn) error {
		a := *tx.Alloc(alloc)
		a.ClientStatus, a.DesiredStatus = api.AllocClientStatusComplete, api.AllocDesiredStatusStop
		tx.PutAlloc(&a)
		return ledger.AllocChanged(tx, &a)
	})
}

func report(alloc string) *commands.Report {
	return &commands.Report{Namespace: "default", VolumeID: "v", AllocID: alloc, NodeID: "n1"}
}

// nextUser ends a1 and has a2 in its place.
func nextUser(b *bed) {
	b.t.Helper()
	if b.state.Read().Claim("default", "v", "a1", "") != nil || b.state.Read().Attachment("p", "x", "n1") != nil {
		b.over("a1")
	}
	b.edit(func(tx *state.Txn) error { ledger.LiftLimit(tx, "p", "n1"); return nil })
	b.published("a2")
}

func (b *bed) snapshot(name string) uint64 {
	b.t.Helper()
	return b.must(&commands.IntendSnapshot{Intent: &api.SnapshotIntent{
		PluginID: "p", Name: name, Namespace: "default", VolumeID: "v", ExternalID: "x",
	}}).(uint64)
}

// anew gives the snapshot "s" up and asks for it again.
func (b *bed) anew() {
	b.t.Helper()
	_, _ = b.do(&commands.GiveUpSnapshot{PluginID: "p", Name: "s", Forget: true, Seen: b.index()})
	b.snapshot("s")
}

var repeated = slices.Concat([]again{
	{"register", func(*bed) fsm.Command { return &commands.Register{Specs: []*api.VolumeSpec{spec("v", "x")}} }, nil},
	{"register a known one", func(b *bed) fsm.Command {
		b.register("v", "x")
		return &commands.Register{Specs: []*api.VolumeSpec{spec("v", "x")}, Known: []uint64{b.volume("v").CreateIndex}}
	}, func(b *bed) { b.forget("v"); b.register("v", "y") }},
	{"create", func(*bed) fsm.Command { return &commands.Intend{Spec: spec("v", "")} }, nil},
	{"created", func(b *bed) fsm.Command {
		b.create("v")
		return &commands.Provisioned{Answer: b.answer("v"), ExternalID: "x"}
	}, func(b *bed) { b.forget("v"); b.create("v") }},
	{"creation failed", func(b *bed) fsm.Command {
		b.create("v")
		return &commands.Provisioned{Answer: b.answer("v", final)}
	}, func(b *bed) { b.create("v") }},
	{"deregister", func(b *bed) fsm.Command {
		b.register("v", "x")
		return &commands.Deregister{Namespace: "default", ID: "v", Seen: b.index()}
	}, func(b *bed) { b.register("v", "x") }},
	{"delete", func(b *bed) fsm.Command {
		b.register("v", "x")
		return &commands.BeginDelete{Namespace: "default", ID: "v", Seen: b.index()}
	}, func(b *bed) { b.must(&commands.EndDelete{Answer: b.answer("v")}); b.register("v", "x") }},
	{"delete what was kept", func(b *bed) fsm.Command {
		b.register("v", "x")
		return &commands.BeginDelete{Namespace: "default", ID: "v", Seen: b.index()}
	}, func(b *bed) { b.must(&commands.EndDelete{Answer: b.answer("v", final)}) }},
	{"confirm", func(b *bed) fsm.Command {
		b.register("v", "x")
		b.must(b.delete("v"))
		return &commands.ConfirmDelete{Namespace: "default", ID: "v", Intent: b.volume("v").Provision.Intent}
	}, func(b *bed) {
		b.must(&commands.EndDelete{Answer: b.answer("v")})
		b.register("v", "x")
		b.must(b.delete("v"))
	}},
	{"deleted", func(b *bed) fsm.Command {
		b.register("v", "x")
		b.must(b.delete("v"))
		return &commands.EndDelete{Answer: b.answer("v")}
	}, func(b *bed) { b.register("v", "x"); b.must(b.delete("v")) }},
	{"expand", func(b *bed) fsm.Command {
		b.register("v", "x")
		return &commands.BeginExpand{Namespace: "default", ID: "v", CapacityMinBytes: 10, Seen: b.index()}
	}, func(b *bed) { b.must(&commands.EndExpand{Answer: b.answer("v"), CapacityBytes: 10}) }},
	{"expanded", func(b *bed) fsm.Command {
		b.register("v", "x")
		b.must(&commands.BeginExpand{Namespace: "default", ID: "v", CapacityMinBytes: 10})
		return &commands.EndExpand{Answer: b.answer("v"), CapacityBytes: 10, NodesOwe: true}
	}, func(b *bed) { b.must(&commands.BeginExpand{Namespace: "default", ID: "v", CapacityMinBytes: 20}) }},
	{"node expanded", func(b *bed) fsm.Command {
		b.register("v", "x")
		b.published("a1")
		b.grown(10)
		return &commands.NodeExpanded{Namespace: "default", ID: "v", NodeID: "n1", Seen: b.index()}
	}, func(b *bed) { b.grown(20) }},
	{"node cannot expand", func(b *bed) fsm.Command {
		b.register("v", "x")
		b.published("a1")
		b.grown(10)
		return &commands.NodeExpanded{Namespace: "default", ID: "v", NodeID: "n1", Reason: "no", Seen: b.index()}
	}, func(b *bed) { b.grown(20) }},
	{"end the hold of a restore", func(b *bed) fsm.Command {
		b.edit(func(tx *state.Txn) error { tx.PutRollback(&api.Rollback{At: 1}); return nil })
		return &commands.EndHold{At: 1}
	}, func(b *bed) {
		b.edit(func(tx *state.Txn) error { tx.PutRollback(&api.Rollback{At: 2}); return nil })
	}},
	{"seal again", func(b *bed) fsm.Command {
		b.edit(func(tx *state.Txn) error {
			tx.PutRootKey(&api.RootKey{RootKeyMeta: api.RootKeyMeta{KeyID: "k2"}})
			return nil
		})
		b.register("v", "x", func(s *api.VolumeSpec) { s.Secrets = map[string]string{"key": "sealed.k1.AAAA"} })
		return &commands.Reseal{Values: map[string]string{"sealed.k1.AAAA": "sealed.k2.AAAA"}}
	}, func(b *bed) {
		b.register("v", "x", func(s *api.VolumeSpec) { s.Secrets = map[string]string{"key": "sealed.k2.BBBB"} })
	}},
	{"reconcile", func(b *bed) fsm.Command {
		b.register("v", "x")
		b.published("a1")
		return &commands.Reconcile{}
	}, nextUser},
}, ofClaims(), ofSnapshots())

func (b *bed) grown(bytes int64) {
	b.t.Helper()
	b.must(&commands.BeginExpand{Namespace: "default", ID: "v", CapacityMinBytes: bytes})
	b.must(&commands.EndExpand{Answer: b.answer("v"), CapacityBytes: bytes, NodesOwe: true})
}

func ofClaims() (list []again) {
	ready := func(b *bed) { b.register("v", "x"); b.published("a1") }
	answers := map[string]func(*commands.Attached){
		"attached":        func(a *commands.Attached) { a.Published = true },
		"prepared":        func(a *commands.Attached) { a.Prepare = true },
		"needs no attach": func(a *commands.Attached) { a.NotCalled = true },
		"attach failed":   func(a *commands.Attached) { a.Reason, a.NextRetry, a.Attempts = "later", 7, 1 },
		"node is full":    func(a *commands.Attached) { a.Reason, a.LimitExpiry = "full", 1<<62 },
		"attach refused":  func(a *commands.Attached) { a.Reason, a.Refused = "never", 3 },
	}
	for name, change := range answers {
		list = append(list, again{name, func(b *bed) fsm.Command {
			b.register("v", "x")
			b.mustPlace("a1", "n1", "v")
			return b.attached(change)
		}, nextUser})
	}
	reports := map[string]*commands.Report{
		"unmounted":         report("a1"),
		"not unmounted":     {Reason: "busy", NextRetry: 7},
		"mount waits":       {Reason: "busy", Mounting: true},
		"written back late": {WriteBack: 7e9},
	}
	for name, r := range reports {
		r.Namespace, r.VolumeID, r.AllocID, r.NodeID = "default", "v", "a1", "n1"
		list = append(list, again{name, func(b *bed) fsm.Command {
			ready(b)
			if !r.Mounting {
				b.ended("a1")
			}
			return r
		}, nextUser})
	}
	return append(list,
		again{"detached", func(b *bed) fsm.Command {
			ready(b)
			b.ended("a1")
			b.must(report("a1"))
			return b.attached(func(*commands.Attached) {})
		}, nextUser},
		again{"evict", func(b *bed) fsm.Command {
			ready(b)
			return &commands.Evict{Namespace: "default", VolumeID: "v", NodeID: "n1", AllocIDs: []string{"a1"}, Proof: ledger.ProofAssumed, By: ledger.ByOperator}
		}, func(b *bed) {
			b.must(&commands.WriteOff{PluginID: "p", ExternalID: "x", NodeID: "n1", StaleMounts: true})
			nextUser(b)
		}},
		again{"write off", func(b *bed) fsm.Command {
			ready(b)
			return &commands.WriteOff{PluginID: "p", ExternalID: "x", NodeID: "n1", Seen: b.index()}
		}, func(b *bed) {
			b.must(&commands.WriteOff{PluginID: "p", ExternalID: "x", NodeID: "n1", StaleMounts: true})
			nextUser(b)
		}},
		again{"write off mounts", func(b *bed) fsm.Command {
			b.register("v", "x")
			b.mounted(1)
			return &commands.WriteOff{PluginID: "p", ExternalID: "x", NodeID: "n1", StaleMounts: true, Seen: b.index(), Since: 1}
		}, func(b *bed) { b.mounted(2) }},
		again{"undo", func(b *bed) fsm.Command {
			ready(b)
			row := *b.state.Read().Attachment("p", "x", "n1")
			b.must(&commands.WriteOff{PluginID: "p", ExternalID: "x", NodeID: "n1"})
			b.must(&commands.WriteOff{PluginID: "p", ExternalID: "x", NodeID: "n1", StaleMounts: true})
			b.must(b.attached(func(*commands.Attached) {}))
			return &commands.UndoAttach{Row: &row, Seen: b.index()}
		}, func(b *bed) { b.must(b.attached(func(*commands.Attached) {})) }},
	)
}

// mounted notes that n1 may still have "x" mounted since then.
func (b *bed) mounted(since int64) {
	b.t.Helper()
	b.edit(func(tx *state.Txn) error {
		n := *tx.Node("n1")
		n.StaleMounts = []*api.StaleMount{{Namespace: "default", VolumeID: "v", AllocID: fmt.Sprint("a", since), PluginID: "p", ExternalID: "x", Since: since}}
		tx.PutNode(&n)
		return nil
	})
}

func ofSnapshots() (list []again) {
	answers := map[string]commands.SnapshotAnswer{
		"snapshot made":      {Ended: true},
		"snapshot is cut":    {SnapshotID: "id"},
		"snapshot is ready":  {Ended: true, Made: true},
		"snapshot fails":     {Reason: "later", Uncertain: true},
		"snapshot unwanted":  {Reason: "no", Unwanted: true},
		"snapshot is undone": {Ended: true, SnapshotID: "id"},
	}
	for name, c := range answers {
		list = append(list, again{name, func(b *bed) fsm.Command {
			b.register("v", "x")
			c.PluginID, c.Name, c.Intent = "p", "s", b.snapshot("s")
			return &c
		}, (*bed).anew})
	}
	return append(list,
		again{"snapshot", func(b *bed) fsm.Command {
			b.register("v", "x")
			return &commands.IntendSnapshot{Intent: &api.SnapshotIntent{PluginID: "p", Name: "s", Namespace: "default", VolumeID: "v", ExternalID: "x"}}
		}, nil},
		again{"delete snapshot", func(*bed) fsm.Command {
			return &commands.IntendSnapshot{Intent: &api.SnapshotIntent{PluginID: "p", Name: "id", Delete: true}}
		}, nil},
		again{"give snapshot up", func(b *bed) fsm.Command {
			b.register("v", "x")
			b.snapshot("s")
			return &commands.GiveUpSnapshot{PluginID: "p", Name: "s", Seen: b.index()}
		}, (*bed).anew},
		again{"snapshot made after all", func(b *bed) fsm.Command {
			b.register("v", "x")
			return &commands.GiveUpSnapshot{Made: &api.SnapshotIntent{PluginID: "p", Name: "id", CutAs: "s", ExternalID: "x"}}
		}, nil},
		again{"forget snapshot", func(b *bed) fsm.Command {
			b.register("v", "x")
			b.snapshot("s")
			return &commands.GiveUpSnapshot{PluginID: "p", Name: "s", Forget: true, Seen: b.index()}
		}, (*bed).anew},
	)
}
