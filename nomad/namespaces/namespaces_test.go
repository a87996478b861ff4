package namespaces_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/namespaces"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func registry() *fsm.Registry { return fsm.NewRegistry(namespaces.Commands) }

type fixture struct {
	*namespaces.Service
	t     *testing.T
	state *state.Store
}

func open(t *testing.T) fixture {
	t.Helper()
	s := state.New()
	return fixture{namespaces.New(namespaces.Config{State: s, Raft: fsm.NewLocal(s, registry())}), t, s}
}

// given puts rows straight into the state.
func (r fixture) given(put func(tx *state.Txn)) {
	tx := r.state.Write(r.state.Read().Index()+1, r.state.Read().Now())
	put(tx)
	tx.Commit()
}

func (r fixture) upsert(n *api.Namespace) error {
	_, err := r.Upsert(r.t.Context(), &api.NamespaceUpsertRequest{Spec: n})
	return err
}

func (r fixture) remove(name string) error {
	_, err := r.Delete(r.t.Context(), &api.NameWriteRequest{Name: name})
	return err
}

func (r fixture) removePool(name string) error {
	_, err := r.DeletePool(r.t.Context(), &api.NameWriteRequest{Name: name})
	return err
}

func refused(t *testing.T, err error, class fault.Class, words ...string) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("got %v, want %v", err, class)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestNamespaceComesAndGoes(t *testing.T) {
	t.Parallel()
	r := open(t)
	if err := r.upsert(&api.Namespace{Name: "prod", Description: "first"}); err != nil {
		t.Fatal(err)
	}
	if err := r.upsert(&api.Namespace{Name: "prod", Description: "second"}); err != nil {
		t.Fatal(err)
	}
	got, err := r.Get(t.Context(), &api.NameRequest{Name: "prod"})
	if err != nil || got.Namespace == nil || got.Namespace.Description != "second" || got.Index < 2 {
		t.Fatalf("got %+v %v", got, err)
	}
	list, err := r.List(t.Context(), &api.QueryOptions{Prefix: "pr"})
	if err != nil || len(list.Namespaces) != 1 {
		t.Fatalf("list %+v %v", list, err)
	}
	if err := r.remove("prod"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Get(t.Context(), &api.NameRequest{Name: "prod"}); err != nil || got.Namespace != nil {
		t.Fatalf("after delete: %+v %v", got, err)
	}
	refused(t, r.remove("prod"), fault.NotFound, `"prod"`)
}

func TestNamespaceInUseIsKept(t *testing.T) {
	t.Parallel()
	r := open(t)
	if err := r.upsert(&api.Namespace{Name: "prod"}); err != nil {
		t.Fatal(err)
	}
	r.given(func(tx *state.Txn) {
		tx.PutJob(&api.Job{Namespace: "prod", ID: "web"})
		tx.PutVolume(&api.Volume{VolumeSpec: api.VolumeSpec{Namespace: "prod", ID: "db"}})
		tx.PutHostVolume(&api.HostVolume{Namespace: "prod", ID: "hv"})
		tx.PutVariable(&api.VariableRow{VariableMeta: api.VariableMeta{Namespace: "prod", Path: "app/x"}})
	})
	refused(t, r.remove("prod"), fault.Conflict, `job "web"`, `volume "db"`, `host volume "hv"`, `variable "app/x"`)
	r.given(func(tx *state.Txn) {
		tx.DeleteJob("prod", "web")
		tx.DeleteVolume("prod", "db")
		tx.DeleteHostVolume("prod", "hv")
		tx.DeleteVariable("prod", "app/x")
	})
	if err := r.remove("prod"); err != nil {
		t.Error(err)
	}
}

func TestRefusalNamesAFewOfMany(t *testing.T) {
	t.Parallel()
	r := open(t)
	if err := r.upsert(&api.Namespace{Name: "prod"}); err != nil {
		t.Fatal(err)
	}
	r.given(func(tx *state.Txn) {
		for _, id := range strings.Fields("a b c d e f g") {
			tx.PutJob(&api.Job{Namespace: "prod", ID: id})
		}
	})
	refused(t, r.remove("prod"), fault.Conflict, `job "e" and 2 more`)
}

func TestBuiltinsStay(t *testing.T) {
	t.Parallel()
	r := open(t)
	refused(t, r.remove("default"), fault.Invalid, "can not delete default namespace")
	for _, pool := range []string{"default", "all"} {
		refused(t, r.removePool(pool), fault.Invalid, pool)
		_, err := r.UpsertPool(t.Context(), &api.NodePoolUpsertRequest{Spec: &api.NodePool{Name: pool}})
		refused(t, err, fault.Invalid, pool)
	}
	list, err := r.Pools(t.Context(), &api.QueryOptions{})
	if err != nil || len(list.Pools) != 2 {
		t.Fatalf("pools %+v %v", list, err)
	}
}

func TestPoolInUseIsKept(t *testing.T) {
	t.Parallel()
	r := open(t)
	if _, err := r.UpsertPool(t.Context(), &api.NodePoolUpsertRequest{Spec: &api.NodePool{Name: "gpu_1"}}); err != nil {
		t.Fatal(err)
	}
	r.given(func(tx *state.Txn) {
		tx.PutNode(&api.Node{ID: "n1", NodePool: "gpu_1"})
		tx.PutJob(&api.Job{Namespace: "default", ID: "train", NodePool: "gpu_1"})
		tx.PutHostVolume(&api.HostVolume{Namespace: "default", ID: "hv", NodePool: "gpu_1"})
	})
	refused(t, r.removePool("gpu_1"), fault.Conflict, `node "n1"`, `job "default/train"`, `host volume "default/hv"`)
	r.given(func(tx *state.Txn) {
		tx.DeleteHostVolume("default", "hv")
		tx.DeleteNode("n1")
		tx.DeleteJob("default", "train")
	})
	if err := r.removePool("gpu_1"); err != nil {
		t.Error(err)
	}
	got, err := r.Pool(t.Context(), &api.NameRequest{Name: "gpu_1"})
	if err != nil || got.Pool != nil {
		t.Errorf("after delete: %+v %v", got, err)
	}
	refused(t, r.removePool("gpu_1"), fault.NotFound, `"gpu_1"`)
}

func TestBadSpecificationsAreRefused(t *testing.T) {
	t.Parallel()
	r := open(t)
	for _, n := range []*api.Namespace{nil, {}, {Name: "bad name!"}, {Name: "a_b"}, {Name: strings.Repeat("x", 129)}, {Name: "q", Quota: "small"}} {
		refused(t, r.upsert(n), fault.Invalid)
	}
	large := map[string]string{"k": strings.Repeat("v", 16<<10)}
	refused(t, r.upsert(&api.Namespace{Name: "large", Meta: large}), fault.Invalid, "large", "16385")
	_, err := r.UpsertPool(t.Context(), &api.NodePoolUpsertRequest{Spec: &api.NodePool{Name: "large", Meta: large}})
	refused(t, err, fault.Invalid, "large", "16385")
	refused(t, r.upsert(&api.Namespace{Name: "no/slash", Description: strings.Repeat("d", 300)}), fault.Invalid, "no/slash", "256")
	for _, p := range []*api.NodePool{nil, {}, {Name: "a b"}, {Name: "p", SchedulerConfiguration: &api.NodePoolSchedulerConfiguration{SchedulerAlgorithm: "luck"}}} {
		_, err := r.UpsertPool(t.Context(), &api.NodePoolUpsertRequest{Spec: p})
		refused(t, err, fault.Invalid)
	}
}

func TestTextThatSteersTerminalsIsRefused(t *testing.T) {
	t.Parallel()
	r := open(t)
	for text, want := range map[string]string{"\x1b": "U+001B", "a\u202eb": "U+202E"} {
		meta := map[string]string{text: "x"}
		refused(t, r.upsert(&api.Namespace{Name: "a", Description: text}), fault.Invalid, "description of the namespace", want)
		refused(t, r.upsert(&api.Namespace{Name: "a", Meta: meta}), fault.Invalid, "meta key of the namespace", want)
		for _, p := range []*api.NodePool{{Name: "a", Description: text}, {Name: "a", Meta: meta}} {
			_, err := r.UpsertPool(t.Context(), &api.NodePoolUpsertRequest{Spec: p})
			refused(t, err, fault.Invalid, "of the node pool", want)
		}
	}
}
