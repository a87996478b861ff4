package ledger_test

import (
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// rolledBack is a state after it came in the place of another one.
func rolledBack(t *testing.T, older, now func(*state.Txn)) *state.Txn {
	t.Helper()
	old, present := newBook(t), newBook(t)
	old.must(func(tx *state.Txn) error { older(tx); return nil })
	present.must(func(tx *state.Txn) error { now(tx); return nil })
	for range 5 { // it is at a later index
		present.must(func(*state.Txn) error { return nil })
	}
	old.must(func(tx *state.Txn) error { ledger.RollBack(tx, present.state.Read()); return nil })
	return old.state.Read()
}

func nothing(*state.Txn) {}

func held(s api.ClaimState) *api.VolumeClaim {
	return &api.VolumeClaim{
		Namespace: "default", VolumeID: "v", AllocID: "a", NodeID: "n1", PluginID: "p", ExternalID: "x", State: s,
		AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem, Mode: api.ClaimWrite, Attach: true,
	}
}

func with(c *api.VolumeClaim, fn func(*api.VolumeClaim)) *api.VolumeClaim {
	fn(c)
	return c
}

// Nodes do not go back: what one of them may have mounted is claimed by either state's word.
func TestARestoreKeepsTheClaimsOfWhatNodesMayHave(t *testing.T) {
	t.Parallel()
	const runs = true
	presumed := func(c *api.VolumeClaim) { c.Presumed = true }
	for name, c := range map[string]struct {
		older, now *api.VolumeClaim
		runs       bool
		want       api.ClaimState
	}{
		"in use, by an allocation that was not there": {now: held(api.ClaimReady), want: api.ClaimReleasing},
		"in use, by one that was":                     {now: held(api.ClaimReady), runs: runs, want: api.ClaimReady},
		"given back":                                  {now: held(api.ClaimReleasing), want: api.ClaimReleasing},
		"being detached":                              {now: held(api.ClaimUnmounted), want: api.ClaimUnmounted},
		"not begun":                                   {now: held(api.ClaimTaken), want: ""},
		"queued":                                      {now: held(api.ClaimWaiting), want: ""},
		"ended":                                       {older: held(api.ClaimReady), runs: runs, want: api.ClaimReady},
		"begun since":                                 {older: held(api.ClaimWaiting), now: held(api.ClaimReady), runs: runs, want: api.ClaimReady},
		"ended by its node since":                     {older: held(api.ClaimTaken), now: held(api.ClaimUnmounted), runs: runs, want: api.ClaimTaken},
		"given up since":                              {older: held(api.ClaimTaken), now: with(held(api.ClaimUnmounted), presumed), runs: runs, want: api.ClaimUnmounted},
		"going on":                                    {older: held(api.ClaimReady), now: held(api.ClaimReleasing), runs: runs, want: api.ClaimReady},
	} {
		put := func(c *api.VolumeClaim) func(*state.Txn) {
			return func(tx *state.Txn) {
				if c != nil {
					next := *c
					tx.PutClaim(&next)
				}
			}
		}
		tx := rolledBack(t, func(tx *state.Txn) {
			if put(c.older)(tx); c.runs {
				tx.PutAlloc(&api.Allocation{ID: "a", NodeID: "n1", DesiredStatus: api.AllocDesiredStatusRun})
			}
		}, put(c.now))
		var got api.ClaimState
		if c := tx.Claim("default", "v", "a", ""); c != nil {
			got = c.State
		}
		if got != c.want {
			t.Errorf("%s: the claim is %q, not %q", name, got, c.want)
		}
	}
}

// What a node promised counts, and so does what it promised last.
func TestARestoreKeepsWhatNodesPromised(t *testing.T) {
	t.Parallel()
	leased := func(d time.Duration) func(*state.Txn) {
		return func(tx *state.Txn) {
			tx.PutClaim(with(held(api.ClaimReady), func(c *api.VolumeClaim) { c.Lease = d }))
		}
	}
	tx := rolledBack(t, leased(time.Minute), leased(time.Hour))
	if c := tx.Claim("default", "v", "a", ""); c.Lease != time.Hour {
		t.Errorf("the claim has a lease of %s", c.Lease)
	}
	tx = rolledBack(t, nothing, func(tx *state.Txn) {
		v := *tx.Volume("default", "v")
		v.Lease = 2 * time.Hour
		tx.PutVolume(&v)
	})
	if b := tx.Rollback(); b.Lease != 2*time.Hour {
		t.Errorf("silent nodes are waited for until %s", b.Lease)
	}
	tx = rolledBack(t, nothing, func(tx *state.Txn) {
		n := *tx.Node("n1")
		n.SecretID = "present"
		tx.PutNode(&n)
	})
	if tx.Node("n1").SecretID != "present" {
		t.Error("the node cannot register: its secret is that of before")
	}
}

// What a lost node may have mounted of claims that were given up is in the way of who comes later.
func TestARestoreKeepsNotesOfWhatNodesMayHaveMounted(t *testing.T) {
	t.Parallel()
	noted := func(allocs ...string) func(*state.Txn) {
		return func(tx *state.Txn) {
			n := *tx.Node("n1")
			for _, a := range allocs {
				n.StaleMounts = append(n.StaleMounts, &api.StaleMount{Namespace: "default", VolumeID: "v", AllocID: a, PluginID: "p", ExternalID: "x"})
			}
			tx.PutNode(&n)
		}
	}
	tx := rolledBack(t, func(tx *state.Txn) {
		noted("both")(tx)
		tx.PutClaim(held(api.ClaimReady)) // of "a", which its node tells of
	}, func(tx *state.Txn) {
		noted("both", "since", "a")(tx)
		tx.PutClaim(held(api.ClaimReleasing))
	})
	var got []string
	for _, m := range tx.Node("n1").StaleMounts {
		got = append(got, m.AllocID)
	}
	if !slices.Equal(got, []string{"both", "since"}) {
		t.Errorf("noted are %v", got)
	}
}

func attached(s api.AttachmentState, fence uint64) *api.VolumeAttachment {
	return &api.VolumeAttachment{
		PluginID: "p", ExternalID: "x", NodeID: "n1", ProviderNodeID: "i-1", State: s, Fence: fence,
		PublishContext: map[string]string{"by": string(s)},
	}
}

// Providers do not go back: what one of them may have attached has a row.
func TestARestoreKeepsAttachments(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		older, now *api.VolumeAttachment
		want       api.AttachmentState
		called     bool
	}{
		"attached since":           {now: attached(api.AttachmentPublished, 7), want: api.AttachmentPublished},
		"being attached":           {now: attached(api.AttachmentPublishing, 7), want: api.AttachmentPublishing},
		"being detached since":     {older: attached(api.AttachmentPublished, 1), now: attached(api.AttachmentUnpublishing, 7), want: api.AttachmentUnpublishing},
		"attached anew":            {older: attached(api.AttachmentUnpublishing, 1), now: attached(api.AttachmentPublished, 7), want: api.AttachmentPublished},
		"detached since":           {older: attached(api.AttachmentPublished, 1), want: api.AttachmentPublishing, called: true},
		"was being detached":       {older: attached(api.AttachmentUnpublishing, 1), want: api.AttachmentUnpublishing, called: true},
		"went back and then forth": {older: attached(api.AttachmentPublished, 7), now: attached(api.AttachmentPublishing, 7), want: api.AttachmentPublished},
	} {
		put := func(a *api.VolumeAttachment) func(*state.Txn) {
			return func(tx *state.Txn) {
				if a != nil {
					next := *a
					tx.PutAttachment(&next)
				}
			}
		}
		a := rolledBack(t, put(c.older), put(c.now)).Attachment("p", "x", "n1")
		if a == nil || a.State != c.want || a.Called != c.called || a.ProviderNodeID != "i-1" {
			t.Errorf("%s: the attachment is %+v", name, a)
		}
	}
	unnamed := func(tx *state.Txn) {
		a := attached(api.AttachmentPublishing, 1)
		a.ProviderNodeID = ""
		tx.PutAttachment(a)
	}
	attaches := func(tx *state.Txn) {
		n := *tx.Node("n1")
		n.CSIControllerPlugins = map[string]*api.CSIInfo{"p": {Healthy: true, ControllerInfo: &api.CSIControllerInfo{SupportsAttachDetach: true}}}
		tx.PutNode(&n)
	}
	if a := rolledBack(t, unnamed, attaches).Attachment("p", "x", "n1"); !a.Called || a.ProviderNodeID != "provider-n1" {
		t.Errorf("the driver may have been called, and not with %q", a.ProviderNodeID)
	}
	if a := rolledBack(t, unnamed, nothing).Attachment("p", "x", "n1"); !a.Called || a.ProviderNodeID != "" {
		t.Errorf("nobody knows whether the plugin attaches, and it is %+v", a)
	}
	needless := func(tx *state.Txn) {
		a := attached(api.AttachmentPublished, 1)
		a.NotCalled = true
		tx.PutAttachment(a)
	}
	if a := rolledBack(t, needless, nothing).Attachment("p", "x", "n1"); a.State != api.AttachmentPublished || a.Called {
		t.Errorf("what was never attached is %+v", a)
	}
}

// Detaching needs the secrets that it was attached with.
func TestARestoreKeepsTheSecretsOfAttachments(t *testing.T) {
	t.Parallel()
	attach := func(tx *state.Txn) {
		v := *tx.Volume("default", "v")
		v.Secrets = map[string]string{"k": "present"}
		tx.PutVolume(&v)
		tx.PutAttachment(attached(api.AttachmentPublished, 7))
	}
	for what, older := range map[string]func(*state.Txn){"changed": nothing, "made since": func(tx *state.Txn) { tx.DeleteVolume("default", "v") }} {
		tx := rolledBack(t, older, attach)
		sets := ledger.Secrets(tx, tx.Attachment("p", "x", "n1"))
		if sets[len(sets)-1]["k"] != "present" {
			t.Errorf("%s: the secrets are %v", what, sets)
		}
	}
	if tx := rolledBack(t, attach, attach); tx.Attachment("p", "x", "n1").Secrets != nil {
		t.Error("secrets that the specification has are doubled")
	}
}

// What destroys something is intended when both states intend it.
func TestARestoreDoesNotTakeUpADeletionThatHadEnded(t *testing.T) {
	t.Parallel()
	is := func(s api.VolumeState, external string, intent uint64, replaces *api.VolumeSpec) func(*state.Txn) {
		return func(tx *state.Txn) {
			v := *tx.Volume("default", "v")
			v.Provision = api.VolumeProvision{State: s, ExternalID: external, Intent: intent, Began: 1, Replaces: replaces}
			tx.PutVolume(&v)
		}
	}
	gone := func(tx *state.Txn) { tx.DeleteVolume("default", "v") }
	earlier := &api.VolumeSpec{PluginID: "p", ExternalID: "y"}
	for name, c := range map[string]struct {
		older, now func(*state.Txn)
		want       api.VolumeState
		intent     uint64
		replaces   bool
		uncertain  bool
	}{
		"goes on":             {older: is(api.VolumeDeleting, "x", 2, nil), now: is(api.VolumeDeleting, "x", 5, nil), want: api.VolumeDeleting, intent: 5},
		"kept":                {older: is(api.VolumeDeleting, "x", 2, nil), now: is(api.VolumeAvailable, "x", 5, nil), want: api.VolumeAvailable, intent: 2},
		"ended":               {older: is(api.VolumeDeleting, "x", 2, nil), now: gone, want: api.VolumeAvailable, intent: 2},
		"of unknown id":       {older: is(api.VolumeDeleting, "", 2, nil), now: gone, want: api.VolumeFailed, intent: 2, uncertain: true},
		"begun since":         {older: is(api.VolumeAvailable, "x", 2, nil), now: is(api.VolumeDeleting, "x", 5, nil), want: api.VolumeAvailable, intent: 2},
		"replaces and is not": {older: is(api.VolumeCreating, "", 2, earlier), now: is(api.VolumeAvailable, "z", 5, nil), want: api.VolumeCreating, intent: 2, uncertain: true},
		"still replaces":      {older: is(api.VolumeCreating, "", 2, earlier), now: is(api.VolumeCreating, "", 5, earlier), want: api.VolumeCreating, intent: 5, replaces: true},
		"may have been made":  {older: is(api.VolumeCreating, "", 2, nil), now: gone, want: api.VolumeCreating, intent: 2, uncertain: true},
		"replaces and goes":   {older: is(api.VolumeDeleting, "", 2, earlier), now: gone, want: api.VolumeFailed, intent: 2},
	} {
		v := rolledBack(t, c.older, c.now).Volume("default", "v")
		p := v.Provision
		if p.State != c.want || p.Intent != c.intent || (p.Replaces != nil) != c.replaces || p.Uncertain != c.uncertain {
			t.Errorf("%s: it is %+v", name, p)
		}
	}
}

// A snapshot that was cut since the older state may be somebody's backup.
func TestARestoreDeletesNoSnapshotThatWasCutSince(t *testing.T) {
	t.Parallel()
	intent := func(i api.SnapshotIntent) func(*state.Txn) {
		return func(tx *state.Txn) {
			i.PluginID, i.ExternalID, i.Since = "p", "x", 7
			tx.PutSnapshotIntent(&i)
		}
	}
	tx := rolledBack(t, intent(api.SnapshotIntent{Name: "s", Uncertain: true}), nothing)
	if i := tx.SnapshotIntent("p", "s", false); i == nil || !i.Unwanted || i.Since != tx.Rollback().At {
		t.Errorf("what was cut since is deleted by %+v", i)
	}
	for name, i := range map[string]api.SnapshotIntent{
		"deletion": {Name: "id", Delete: true}, "known": {Name: "s", Unwanted: true, SnapshotID: "id"}, "followed": {Name: "s", SnapshotID: "id"},
	} {
		tx := rolledBack(t, intent(i), nothing)
		if got := tx.SnapshotIntent("p", i.Name, i.Delete); got != nil {
			t.Errorf("%s: what has ended is intended once more: %+v", name, got)
		}
		tx = rolledBack(t, nothing, intent(i))
		if got := tx.SnapshotIntent("p", i.Name, i.Delete); (got != nil) != (name == "followed") {
			t.Errorf("%s: what only the state before intends is %+v", name, got)
		}
	}
	tx = rolledBack(t, nothing, intent(api.SnapshotIntent{Name: "s"}))
	if i := tx.SnapshotIntent("p", "s", false); i == nil || i.Unwanted || i.Since != 7 {
		t.Errorf("what is being cut is %+v", i)
	}
	both := intent(api.SnapshotIntent{Name: "id", Delete: true})
	if i := rolledBack(t, both, both).SnapshotIntent("p", "id", true); i == nil {
		t.Error("a deletion that both intend is forgotten")
	}
}

// All that a restore brings comes in one entry, and who waits for an answer waits for that of his own request.
func TestSnapshotsKeepWhatTheyAreKnownByOverARestore(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	var before uint64
	b.must(func(tx *state.Txn) error {
		tx.PutSnapshotIntent(&api.SnapshotIntent{PluginID: "p", Name: "old"})
		before = tx.Index()
		return nil
	})
	present := newBook(t)
	operations := map[string]uint64{}
	for _, name := range []string{"s", "t", "u"} {
		present.must(func(tx *state.Txn) error {
			tx.PutSnapshotIntent(&api.SnapshotIntent{PluginID: "p", Name: name})
			operations[name] = tx.Index()
			return nil
		})
	}
	check := func(when string, fence func(*state.Txn, uint64) uint64) {
		t.Helper()
		tx := b.state.Read()
		for name, operation := range operations {
			i := tx.SnapshotIntent("p", name, false)
			if i.Operation() != operation || i.Fence() != fence(tx, operation) {
				t.Errorf("%s %q, asked for with entry %d, is known by %d and called by %d", when, name, operation, i.Operation(), i.Fence())
			}
		}
	}
	b.must(func(tx *state.Txn) error { ledger.RollBack(tx, present.state.Read()); return nil })
	check("after the restore", func(_ *state.Txn, operation uint64) uint64 { return max(operation, b.state.Read().Index()) })
	for range 5 {
		b.must(func(*state.Txn) error { return nil })
	}
	b.must(ledger.RollbackOver)
	check("after the wait", func(tx *state.Txn, _ uint64) uint64 { return tx.Index() })
	if i := b.state.Read().SnapshotIntent("p", "old", false); !i.Unwanted || i.Operation() != before {
		t.Errorf("what only the older state intends is %+v", i)
	}
}

// Hosts of controllers have seen the intents of the state before.
func TestIntentsAreRenewedWhenTheWaitAfterARestoreEnds(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.must(func(tx *state.Txn) error {
		tx.PutAttachment(attached(api.AttachmentUnpublishing, 1))
		other := attached(api.AttachmentPublishing, 1)
		other.NodeID, other.ProviderNodeID = "n2", ""
		tx.PutAttachment(other)
		tx.PutClaim(with(held(api.ClaimTaken), func(c *api.VolumeClaim) { c.NodeID = "n2" }))
		tx.PutAlloc(&api.Allocation{ID: "a", NodeID: "n2", DesiredStatus: api.AllocDesiredStatusRun})
		tx.PutRollback(&api.Rollback{At: 1, Untold: []string{"n1"}})
		return nil
	})
	b.must(ledger.RollbackOver)
	tx := b.state.Read()
	one, two := tx.Attachment("p", "x", "n1"), tx.Attachment("p", "x", "n2")
	if one.Fence != tx.Index() || !one.Called || two.Fence != tx.Index() || two.Called {
		t.Errorf("the intents are %+v and %+v", one, two)
	}
}

// A node was given up, and tells that it has the volume still: it unmounts it before it is detached.
func TestMountOfANodeThatWasGivenUpIsUnmountedFirst(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		b := newBook(t)
		b.must(func(tx *state.Txn) error {
			tx.PutAttachment(attached(api.AttachmentUnpublishing, 1))
			tx.PutClaim(with(held(api.ClaimUnmounted), func(c *api.VolumeClaim) { c.Presumed = true }))
			tx.PutRollback(&api.Rollback{At: 1, Untold: []string{"n1", "n2"}, Open: late})
			ledger.Told(tx, "n1", []*api.StaleMount{{Namespace: "default", VolumeID: "v", AllocID: "a", PluginID: "p", ExternalID: "x"}}, false)
			return nil
		})
		want := map[bool]api.ClaimState{false: api.ClaimReleasing, true: api.ClaimUnmounted}[late]
		if c := b.state.Read().Claim("default", "v", "a", ""); c.State != want || c.Presumed != late {
			t.Errorf("late %t: the claim is %+v", late, c)
		}
		if a := b.attachment(); (a.State == api.AttachmentUnpublishing) != late {
			t.Errorf("late %t: the attachment is %+v", late, a)
		}
	}
}

// An attach that was under way, and whose claim the older state does not know, is nobody's: it is undone.
func TestAnAttachThatARestoreLeavesWithoutClaimIsUndone(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*api.VolumeAttachment){
		"intended":  func(*api.VolumeAttachment) {},
		"uncertain": func(a *api.VolumeAttachment) { a.Called, a.LastError = true, "the answer was lost" },
		"refused":   func(a *api.VolumeAttachment) { a.Called, a.LastError, a.Refused = true, "no", 1 },
	} {
		old, present := newBook(t), newBook(t)
		present.must(func(tx *state.Txn) error {
			a := attached(api.AttachmentPublishing, 1)
			change(a)
			tx.PutAttachment(a)
			tx.PutClaim(held(api.ClaimTaken))
			return nil
		})
		old.must(func(tx *state.Txn) error { ledger.RollBack(tx, present.state.Read()); return nil })
		old.must(ledger.RollbackOver)
		a := old.state.Read().Attachment("p", "x", "n1")
		if a == nil || a.State != api.AttachmentUnpublishing || !a.Called || a.Refused != 0 {
			t.Errorf("%s: the attachment is %+v", what, a)
		}
	}
}

// An archive that was saved during the wait after another restore knows of nodes and promises that have no row in it.
func TestAStateThatWasSavedDuringTheWaitIsStillWaitedFor(t *testing.T) {
	t.Parallel()
	tx := rolledBack(t, func(tx *state.Txn) {
		tx.PutRollback(&api.Rollback{At: 1, Untold: []string{"down", "silent"}, Awaited: []string{"silent"}, Lease: 9 * time.Hour})
	}, nothing)
	b := tx.Rollback()
	if !slices.Contains(b.Awaited, "silent") || slices.Contains(b.Awaited, "down") || !slices.Contains(b.Untold, "down") || b.Lease != 9*time.Hour || b.At == 1 {
		t.Errorf("asked are %+v", b)
	}
}

// What was given up since has lost its path, and does not get it back while its node may have it mounted.
func TestARestoreDoesNotBringBackWhatWasGivenUp(t *testing.T) {
	t.Parallel()
	note := func(shared bool) func(*state.Txn) {
		return func(tx *state.Txn) {
			n := *tx.Node("n1")
			n.StaleMounts = []*api.StaleMount{{Namespace: "default", VolumeID: "v", AllocID: "a", PluginID: "p", ExternalID: "x", Shared: shared}}
			tx.PutNode(&n)
		}
	}
	older := func(tx *state.Txn) {
		tx.PutClaim(held(api.ClaimReady))
		tx.PutAttachment(attached(api.AttachmentPublished, 1))
		tx.PutAlloc(&api.Allocation{ID: "a", NodeID: "n1", DesiredStatus: api.AllocDesiredStatusRun})
	}
	tx := rolledBack(t, older, note(false))
	if c, a := tx.Claim("default", "v", "a", ""), tx.Attachment("p", "x", "n1"); c != nil || a == nil || a.State != api.AttachmentUnpublishing || len(tx.Node("n1").StaleMounts) != 1 {
		t.Errorf("after the detach: the claim is %+v, the attachment %+v, stale are %v", c, a, tx.Node("n1").StaleMounts)
	}
	tx = rolledBack(t, older, note(true))
	if c := tx.Claim("default", "v", "a", ""); c == nil {
		t.Error("without a proof: there is no claim")
	}
	tx = rolledBack(t, nothing, func(tx *state.Txn) {
		note(false)(tx)
		tx.PutClaim(with(held(api.ClaimUnmounted), func(c *api.VolumeClaim) { c.Presumed, c.Proof = true, ledger.ProofFenced }))
		tx.PutAttachment(attached(api.AttachmentUnpublishing, 7))
	})
	if c := tx.Claim("default", "v", "a", ""); c == nil || !c.Presumed || len(tx.Node("n1").StaleMounts) != 1 {
		t.Errorf("before the detach: the claim is %+v, stale are %v", c, tx.Node("n1").StaleMounts)
	}
}

// What a node gets while its registration is on its way would be missing in what it tells, also of shared volumes.
func TestNodeGetsNoVolumeBeforeItHasTold(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	c := with(held(api.ClaimReady), func(c *api.VolumeClaim) { c.AccessMode, c.ExternalID = api.AccessMultiNodeMultiWriter, "shared" })
	for untold, awaits := range map[string]bool{"n1": true, "n2": false} {
		b.must(func(tx *state.Txn) error {
			tx.PutRollback(&api.Rollback{At: 1, Open: true, Untold: []string{untold}})
			return nil
		})
		if got := ledger.Awaits(b.state.Read(), c); got != awaits {
			t.Errorf("%s has not told: the claim of n1 waits: %t", untold, got)
		}
	}
}

// What a node tells after the wait may be somebody else's by now. Its allocation is stopped then: schedulers see that by the
// note.
func TestWhoTellsLateThatItHasWhatOthersGotIsNoted(t *testing.T) {
	t.Parallel()
	for other, noted := range map[string]bool{"n2": true, "": false} {
		b := newBook(t)
		b.must(func(tx *state.Txn) error {
			tx.PutRollback(&api.Rollback{At: 1, Open: true, Untold: []string{"n1"}})
			tx.PutAlloc(&api.Allocation{ID: "a", NodeID: "n1", DesiredStatus: api.AllocDesiredStatusRun})
			tx.PutClaim(held(api.ClaimWaiting))
			if other != "" {
				tx.PutClaim(with(held(api.ClaimReady), func(c *api.VolumeClaim) { c.AllocID, c.NodeID = "b", other }))
			}
			return nil
		})
		b.must(func(tx *state.Txn) error {
			ledger.Told(tx, "n1", []*api.StaleMount{{Namespace: "default", VolumeID: "v", AllocID: "a", PluginID: "p", ExternalID: "x"}}, false)
			return nil
		})
		c, notes := b.state.Read().Claim("default", "v", "a", ""), b.state.Read().Node("n1").StaleMounts
		want := map[bool]api.ClaimState{true: api.ClaimReleasing, false: api.ClaimReady}[noted]
		if c.State != want || (len(notes) == 1) != noted {
			t.Errorf("beside a user on %q the claim is %s, stale are %v", other, c.State, notes)
		}
	}
}
