package commands_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// bed is a log with the plugin "p" on two nodes, one of which has its controller.
type bed struct {
	t     *testing.T
	state *state.Store
}

func newBed(t *testing.T) *bed {
	t.Helper()
	s := state.New()
	b := &bed{t: t, state: s}
	b.edit(func(tx *state.Txn) error {
		for _, id := range []string{"n1", "n2"} {
			tx.PutNode(&api.Node{ID: id, Status: api.NodeStatusReady, CSINodePlugins: map[string]*api.CSIInfo{
				"p": {PluginID: "p", Healthy: true, RequiresControllerPlugin: true, NodeInfo: &api.CSINodeInfo{ID: "provider-" + id}},
			}})
		}
		n := *tx.Node("n1")
		n.CSIControllerPlugins = map[string]*api.CSIInfo{"p": {
			PluginID: "p", Healthy: true, ControllerInfo: &api.CSIControllerInfo{SupportsAttachDetach: true},
		}}
		tx.PutNode(&n)
		return nil
	})
	return b
}

func (b *bed) at() (*state.Txn, func(error) error) {
	tx := b.state.Write(b.state.Read().Index()+1, time.Unix(1000, 0))
	return tx, func(err error) error {
		if err != nil {
			tx.Abort()
			return err
		}
		tx.Commit()
		return nil
	}
}

func (b *bed) edit(fn func(*state.Txn) error) {
	b.t.Helper()
	tx, end := b.at()
	if err := end(fn(tx)); err != nil {
		b.t.Fatal(err)
	}
}

// do applies a command as an entry of its own.
func (b *bed) do(c fsm.Command) (any, error) {
	tx, end := b.at()
	value, err := c.Apply(tx)
	return value, end(err)
}

func (b *bed) must(c fsm.Command) any {
	b.t.Helper()
	value, err := b.do(c)
	if err != nil {
		b.t.Fatalf("%T: %v", c, err)
	}
	return value
}

// refused applies a command that must be refused as a conflict, with all the words.
func (b *bed) refused(c fsm.Command, words ...string) {
	b.t.Helper()
	_, err := b.do(c)
	if !errors.Is(err, fault.Conflict) {
		b.t.Fatalf("%T: %v", c, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			b.t.Errorf("%T: %q does not say %q", c, err, w)
		}
	}
}

func (b *bed) volume(id string) *api.Volume { return b.state.Read().Volume("default", id) }

func spec(id, external string) *api.VolumeSpec {
	return &api.VolumeSpec{
		ID: id, Name: id, Namespace: "default", PluginID: "p", ExternalID: external,
		RequestedCapabilities: []*api.VolumeCapability{{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem}},
	}
}

func (b *bed) register(id, external string, change ...func(*api.VolumeSpec)) {
	b.t.Helper()
	s := spec(id, external)
	for _, c := range change {
		c(s)
	}
	b.must(&commands.Register{Specs: []*api.VolumeSpec{s}})
}

func (b *bed) create(id string, change ...func(*api.VolumeSpec)) uint64 {
	b.t.Helper()
	s := spec(id, "")
	for _, c := range change {
		c(s)
	}
	return b.must(&commands.Intend{Spec: s}).(uint64)
}

func (b *bed) place(alloc, node, volume string) error {
	g := &api.TaskGroup{Name: "g", Volumes: map[string]*api.VolumeRequest{"v": {Type: api.VolumeTypeCSI, Source: volume}}}
	a := &api.Allocation{
		ID: alloc, Namespace: "default", NodeID: node, JobID: "j", TaskGroup: "g", DesiredStatus: api.AllocDesiredStatusRun,
		Job: &api.Job{ID: "j", TaskGroups: []*api.TaskGroup{g}},
	}
	tx, end := b.at()
	tx.PutAlloc(a)
	return end(ledger.Take(tx, a, nil))
}

func (b *bed) mustPlace(alloc, node, volume string) {
	b.t.Helper()
	if err := b.place(alloc, node, volume); err != nil {
		b.t.Fatal(err)
	}
}

// answer is one to the running call of a volume.
func (b *bed) answer(id string, change ...func(*commands.Answer)) commands.Answer {
	a := commands.Answer{Namespace: "default", ID: id, Intent: b.volume(id).Provision.Intent}
	for _, c := range change {
		c(&a)
	}
	return a
}

func final(a *commands.Answer)     { a.Final, a.Reason = true, "refused" }
func uncertain(a *commands.Answer) { a.Uncertain, a.Reason = true, "no answer" }

func (b *bed) delete(id string) *commands.BeginDelete {
	return &commands.BeginDelete{Namespace: "default", ID: id}
}

// kept is what the proposer of [commands.ConfirmDelete] says of a volume that is not deleted.
const kept = `not deleted: "w" came`

func (b *bed) confirm(id string) commands.Confirmation {
	b.t.Helper()
	return b.must(&commands.ConfirmDelete{Namespace: "default", ID: id, Intent: b.volume(id).Provision.Intent, Kept: kept}).(commands.Confirmation)
}
