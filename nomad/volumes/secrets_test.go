package volumes_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/secrets"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

func TestErrorsHideSecretsThatDriversQuote(t *testing.T) {
	t.Parallel()
	const secret, former = "hunter2-of-the-volume", "hunter1-of-the-request"
	r := newRig(t)
	n := r.Node("n1")
	servers := wire.Direct(r.Service.Handlers()...)
	spec := volumestest.Spec("v")
	spec.Secrets = map[string]string{"password": secret}
	r.Register(spec)
	n.Says("Controller.Validate", codes.InvalidArgument, "bad password "+secret+" and "+former)
	n.Says("Controller.Delete", codes.InvalidArgument, "bad password "+secret+" and "+former)
	n.Says("Controller.SnapshotList", codes.InvalidArgument, "bad password "+former)
	given := map[string]string{"password": former}
	changed := volumestest.Spec("v", writer, api.AccessMultiNodeMultiWriter)
	changed.Secrets = given
	for what, ask := range map[string]func() error{
		"register": func() error {
			_, err := wire.VolumeRegister.Call(r.Context(), servers, &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{changed}})
			return err
		},
		"delete": func() error {
			_, err := wire.VolumeDelete.Call(r.Context(), servers, &api.VolumeDeleteRequest{VolumeID: "v", Secrets: given})
			return err
		},
	} {
		err := ask()
		if err == nil || !strings.Contains(err.Error(), "bad password") {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), former) {
			t.Errorf("%s shows a secret: %v", what, err)
		}
		if !errors.Is(err, fault.Invalid) {
			t.Errorf("%s lost its class: %v", what, err)
		}
	}
}

// The report of a node whose agent was started anew may quote a secret that it has not sent itself.
func TestReportsShowNoSecrets(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	v := volumestest.Spec("v")
	v.Secrets = map[string]string{"password": "tr0ub4dor"}
	r.Register(v)
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Ends("a1", api.AllocClientStatusComplete)
	if err := r.Report("v", "a1", "n1", "umount: -o password=tr0ub4dor: busy"); err != nil {
		t.Fatal(err)
	}
	if c := r.State.Read().Claim("default", "v", "a1", ""); strings.Contains(c.LastError, "tr0ub4dor") || !strings.Contains(c.LastError, "busy") {
		t.Errorf("the claim shows %q", c.LastError)
	}
}

// fromVariable is a volume whose secrets are the items of a variable.
func fromVariable(id string) *api.VolumeSpec {
	v := volumestest.Spec(id)
	v.SecretsFrom = "nomad/jobs/csi"
	return v
}

func TestSecretsOfAVariableAreReadForEachCall(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	given := map[string][]string{}
	var mu sync.Mutex
	takes := func(method string, secrets func(any) map[string]string) {
		n.On(method, func(_ context.Context, req any) error {
			mu.Lock()
			defer mu.Unlock()
			given[method] = append(given[method], secrets(req)["key"])
			return nil
		})
	}
	takes("Controller.Validate", func(q any) map[string]string { return q.(*api.ControllerValidateRequest).Secrets })
	takes("Controller.Create", func(q any) map[string]string { return q.(*api.ControllerCreateRequest).Secrets })
	takes("Controller.Publish", func(q any) map[string]string { return q.(*api.ControllerPublishRequest).Secrets })
	takes("Controller.Unpublish", func(q any) map[string]string { return q.(*api.ControllerUnpublishRequest).Secrets })
	takes("Controller.Snapshot", func(q any) map[string]string { return q.(*api.ControllerSnapshotRequest).Secrets })
	takes("Controller.Expand", func(q any) map[string]string { return q.(*api.ControllerExpandRequest).Secrets })
	takes("NodeVolume.Expand", func(q any) map[string]string { return q.(*api.NodeVolumeExpandRequest).Secrets })
	takes("Controller.Delete", func(q any) map[string]string { return q.(*api.ControllerDeleteRequest).Secrets })
	put := func(value string) { r.Variables.Store("default/nomad/jobs/csi", map[string]string{"key": value}) }

	put("1")
	v := fromVariable("v")
	v.ExternalID = ""
	v.RequestedCapacityMin = 1 << 20
	if err := r.Create(v); err != nil {
		t.Fatal(err)
	}
	put("2")
	r.Register(fromVariable("other"))
	put("3")
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	if got := r.MustClaim("v", "a1", "n1").Volume; got.Secrets["key"] != "3" || len(got.Secrets) != 1 {
		t.Errorf("the node gets %v", got.Secrets)
	}
	put("4")
	if got := r.MustClaim("v", "a1", "n1").Volume; got.Secrets["key"] != "4" {
		t.Errorf("the node gets %v after the change", got.Secrets)
	}
	larger := *v
	larger.RequestedCapacityMin = 2 << 20
	n.Grows(api.ControllerExpandResponse{CapacityBytes: 2 << 20, NodeExpansionRequired: true})
	if err := r.Create(&larger); err != nil {
		t.Fatal(err)
	}
	r.Eventually("the node expanded", func(tx *state.Txn) bool { return len(tx.Volume("default", "v").Provision.NodeExpansion) == 0 })
	put("5")
	if _, err := r.Snapshot("s"); err != nil {
		t.Fatal(err)
	}
	put("6")
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Unmounted("v", "a1", "n1")
	r.Free("v")
	put("7")
	if err := r.Delete("v"); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	want := map[string]string{
		"Controller.Create": "1", "Controller.Validate": "2", "Controller.Publish": "3", "Controller.Expand": "4", "NodeVolume.Expand": "4",
		"Controller.Snapshot": "5", "Controller.Unpublish": "6", "Controller.Delete": "7",
	}
	for method, value := range want {
		if got := given[method]; len(got) == 0 || slices.ContainsFunc(got, func(s string) bool { return s != value }) {
			t.Errorf("%s was called with %q, not %q", method, got, value)
		}
	}
}

// A call waits for its variable, and continues when the variable is there.
func TestAMissingVariableIsNamedAndWaitedFor(t *testing.T) {
	r := newRig(t, forAnAnswer, func(l *reconciler.Limits) { l.RetryMin, l.RetryMax = time.Hour, time.Hour })
	n := r.Node("n1")
	const missing = "the secrets of volume \"v\" are those of variable \"nomad/jobs/csi\" in namespace \"default\", but the variable has no items: " +
		"`nomad var put -namespace default nomad/jobs/csi KEY=VALUE` sets them"
	v := fromVariable("v")
	v.ExternalID = ""
	done := make(chan error, 1)
	go func() { done <- r.Create(v) }()
	r.Eventually("the creation names the variable", func(tx *state.Txn) bool {
		row := tx.Volume("default", "v")
		return row != nil && row.Provision.LastError == missing
	})
	if n.Count("Controller.Create") != 0 {
		t.Error("the driver was called without secrets")
	}
	r.Variables.Store("default/nomad/jobs/csi", map[string]string{"key": "s"})
	r.Edit(func(tx *state.Txn) {
		tx.PutVariable(&api.VariableRow{VariableMeta: api.VariableMeta{Namespace: "default", Path: "nomad/jobs/csi"}})
	})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Variables.Delete("default/nomad/jobs/csi")
	if _, err := r.Claim("v", "a1", "n1"); err == nil || err.Error() != missing || !errors.Is(err, fault.Unavailable) {
		t.Errorf("a mount: %v", err)
	}
	// A node that shows why it waits gets the reason, and the secrets as soon as they are there.
	q := &api.VolumeClaimRequest{VolumeID: "v", AllocID: "a1", NodeID: "n1", Tell: true}
	waits, err := r.Service.Claim(r.Context(), q)
	if err != nil || waits.Waiting != missing {
		t.Fatalf("a node that shows why it waits: %+v, %v", waits, err)
	}
	q.Known = missing
	go func() {
		r.Variables.Store("default/nomad/jobs/csi", map[string]string{"key": "later"})
		r.Edit(func(tx *state.Txn) {
			tx.PutVariable(&api.VariableRow{VariableMeta: api.VariableMeta{Namespace: "default", Path: "nomad/jobs/csi"}, Data: []byte("2")})
		})
	}()
	if given, err := r.Service.Claim(r.Context(), q); err != nil || given.Volume == nil || given.Volume.Secrets["key"] != "later" {
		t.Errorf("a node that has waited: %+v, %v", given, err)
	}
}

func TestSecretsFromNeedsTheRightToReadTheVariable(t *testing.T) {
	const mayWrite = "plugin { policy = \"read\" }\nnamespace \"default\" {\n capabilities = [\"csi-write-volume\"]\n"
	r := newRig(t)
	r.Node("n1")
	r.Variables.Store("default/nomad/jobs/csi", map[string]string{"key": "s"})
	ask := func(rules string) error {
		q := &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{fromVariable("v")}}
		_, err := r.Service.Register(r.as(t, rules, wire.VolumeRegister.Needs, q), q)
		return err
	}
	for _, rules := range []string{
		mayWrite + "}",
		mayWrite + "variables { path \"nomad/jobs/csi\" { capabilities = [\"list\", \"write\"] } }\n}",
		mayWrite + "}\nnamespace \"other\" { variables { path \"*\" { capabilities = [\"read\"] } } }",
	} {
		if err := ask(rules); !errors.Is(err, fault.Denied) || !strings.Contains(err.Error(), "secrets_from needs the right to read variable \"nomad/jobs/csi\"") {
			t.Errorf("%s\n%v", rules, err)
		}
	}
	if r.State.Read().Volume("default", "v") != nil {
		t.Fatal("a refused volume is registered")
	}
	if err := ask(mayWrite + "variables { path \"nomad/jobs/csi\" { capabilities = [\"read\"] } }\n}"); err != nil {
		t.Fatal(err)
	}
	if d := r.Get("v"); d.SecretsFrom != "nomad/jobs/csi" || d.Secrets != nil {
		t.Errorf("the volume shows %q and %v", d.SecretsFrom, d.Secrets)
	}
}

func TestWrongSecretsAreRefused(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	both, unnamed := fromVariable("v"), volumestest.Spec("v")
	both.Secrets = map[string]string{"key": "s"}
	unnamed.Secrets = map[string]string{"": "other/nomad/jobs/theirs"}
	for text, spec := range map[string]*api.VolumeSpec{"secrets and secrets_from exclude each other": both, "a key of secrets is empty": unnamed} {
		if _, err := r.Service.Register(r.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{spec}}); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
	// Requests that bring secrets cannot refer to a variable either.
	r.Register(volumestest.Spec("v"))
	if _, err := r.Service.Delete(r.Context(), &api.VolumeDeleteRequest{VolumeID: "v", Secrets: unnamed.Secrets}); !errors.Is(err, fault.Invalid) {
		t.Errorf("deletion: %v", err)
	}
	if _, err := r.Service.DeleteSnapshot(r.Context(), &api.SnapshotDeleteRequest{PluginID: "p", ID: "s", Secrets: unnamed.Secrets}); !errors.Is(err, fault.Invalid) {
		t.Errorf("deletion of a snapshot: %v", err)
	}
}

// Secrets are replaced by a variable, and the other way about, by writing the specification again.
func TestSecretsAndAVariableReplaceEachOther(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	r.Variables.Store("default/nomad/jobs/csi", map[string]string{"key": "of the variable"})
	given := volumestest.Spec("v")
	given.Secrets = map[string]string{"key": "of the volume", "user": "u"}
	r.Register(given)
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	for _, step := range []struct {
		spec *api.VolumeSpec
		want map[string]string
	}{
		{fromVariable("v"), map[string]string{"key": "of the variable"}},
		{volumestest.Spec("v"), map[string]string{"key": "of the variable"}}, // names none: they stay
		{given, given.Secrets},
	} {
		r.Register(step.spec)
		if got := r.MustClaim("v", "a1", "n1").Volume.Secrets; !maps.Equal(got, step.want) {
			t.Errorf("the node gets %v, not %v", got, step.want)
		}
	}
	if d := r.Get("v"); d.SecretsFrom != "" {
		t.Errorf("the volume still shows the variable %q", d.SecretsFrom)
	}
}

// A rotation of the root key is no change of the secrets: calls get the same ones, and so do they when the old key is removed.
func TestARotationKeepsTheSecrets(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	key := func(id, state string) *api.RootKey {
		return &api.RootKey{RootKeyMeta: api.RootKeyMeta{KeyID: id, State: api.RootKeyState(state)}}
	}
	r.Edit(func(tx *state.Txn) { tx.PutRootKey(key("k1", string(api.RootKeyActive))) })
	v := volumestest.Spec("v")
	v.Secrets = map[string]string{"key": "hunter2hunter2"}
	r.Register(v)
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Edit(func(tx *state.Txn) {
		tx.PutRootKey(key("k1", string(api.RootKeyInactive)))
		tx.PutRootKey(key("k2", string(api.RootKeyActive)))
	})
	r.Keyring.Rotate("k2")
	r.Register(v)
	if p := r.State.Read().Volume("default", "v").Provision; p.FormerSecrets != nil {
		t.Error("the secrets count as changed")
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = r.Service.Reseal(ctx) }()
	r.Eventually("the old key seals nothing", func(tx *state.Txn) bool { return secrets.Used(tx, "k1") == 0 })
	stop()
	<-ended
	r.Keyring.Remove("k1")
	if got := r.MustClaim("v", "a1", "n1").Volume.Secrets; !maps.Equal(got, v.Secrets) {
		t.Errorf("the node gets %v", got)
	}
	r.Keyring.Remove("k2")
	if _, err := r.Claim("v", "a1", "n1"); err == nil || !strings.Contains(err.Error(), `secret "key" of volume "v" cannot be read: register the volume again with its secrets`) {
		t.Errorf("without the key: %v", err)
	}
}

// What the state and its log have of secrets is sealed, and nodes get no others than those for their calls.
func TestTheStateHasNoSecretInClear(t *testing.T) {
	const canary = "canary-7f3a9c"
	r := newRig(t)
	n := r.Node("n1")
	log := &recorded{Leader: r.Raft}
	service := r.ServiceOver(log)
	secret := func(s string) map[string]string { return map[string]string{"key": canary + s} }
	spec := func(id string) *api.VolumeSpec {
		v := volumestest.Spec(id)
		v.Secrets = secret("-of-" + id)
		return v
	}
	if _, err := service.Register(r.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{spec("v")}}); err != nil {
		t.Fatal(err)
	}
	made := spec("made")
	made.ExternalID = ""
	if _, err := service.Create(r.Context(), &api.VolumeCreateRequest{Volumes: []*api.VolumeSpec{made}}); err != nil {
		t.Fatal(err)
	}
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	again := spec("v")
	again.Secrets = secret("-again")
	if _, err := service.Register(r.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{again}}); err != nil {
		t.Fatal(err)
	}
	if got := r.MustClaim("v", "a1", "n1").Volume; got.Provision.FormerSecrets != nil || !maps.Equal(got.Secrets, again.Secrets) {
		t.Errorf("the node gets %v and %v", got.Secrets, got.Provision.FormerSecrets)
	}
	for _, method := range []string{"Controller.Snapshot", "Controller.SnapshotDelete", "Controller.Delete"} {
		n.Says(method, codes.Unavailable, "later, "+canary+"-of-the-request")
	}
	_, _ = service.CreateSnapshots(r.Context(), &api.SnapshotCreateRequest{Snapshots: []*api.Snapshot{{SourceVolumeID: "v", Name: "s", Secrets: secret("-of-the-request")}}})
	_, _ = service.DeleteSnapshot(r.Context(), &api.SnapshotDeleteRequest{PluginID: "p", ID: "s", Secrets: secret("-of-the-request")})
	_, _ = service.DeleteSnapshot(r.Context(), &api.SnapshotDeleteRequest{PluginID: "p", ID: "other", Secrets: secret("-of-the-request")})
	_, _ = service.Delete(r.Context(), &api.VolumeDeleteRequest{VolumeID: "made", Secrets: secret("-of-the-request")})
	tx := r.State.Read()
	if tx.Volume("default", "made").Provision.IntentSecrets == nil || tx.SnapshotIntent("p", "other", true).Secrets == nil || len(log.entries) < 6 {
		t.Fatal("the requests left nothing to look at")
	}
	r.Halt()
	var dump bytes.Buffer
	if err := r.State.Read().Dump(&dump); err != nil {
		t.Fatal(err)
	}
	for what, raw := range map[string][]byte{"the state": dump.Bytes(), "the log": bytes.Join(log.entries, nil)} {
		if bytes.Contains(raw, []byte(canary)) {
			t.Errorf("%s has a secret in clear", what)
		}
	}
}

// recorded keeps the commands that are proposed.
type recorded struct {
	fsm.Leader
	entries [][]byte
}

func (r *recorded) Propose(ctx context.Context, c fsm.Command) (fsm.Result, error) {
	raw, err := c.MarshalMsg(nil)
	if err != nil {
		return fsm.Result{}, err
	}
	r.entries = append(r.entries, raw)
	return r.Leader.Propose(ctx, c)
}
