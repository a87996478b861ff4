package events_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/events"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// rig is a state, the buffer of its changes and the service.
type rig struct {
	t      testing.TB
	state  *state.Store
	buffer *events.Buffer
	*events.Service
	index uint64
}

func newRig(t testing.TB, size int) *rig {
	r := &rig{t: t, state: state.New(), index: 10}
	r.buffer = events.NewBuffer(r.state, size)
	r.Service = events.New(events.Config{State: r.state, Buffer: r.buffer, ID: "s1"})
	return r
}

// apply commits what change does as a command of a kind.
func (r *rig) apply(kind fsm.Kind, change func(tx *state.Txn)) uint64 {
	r.index++
	tx := r.state.Write(r.index, time.Unix(int64(r.index), 0))
	change(tx)
	r.buffer.Applied(kind, r.index, tx.Commit())
	return r.index
}

func (r *rig) eval(id, namespace string) uint64 {
	return r.apply(fsm.KindEvalUpdate, func(tx *state.Txn) {
		tx.PutEval(&api.Evaluation{ID: id, Namespace: namespace, JobID: "web", Status: "complete"})
	})
}

// subscriber reads lines.
type subscriber struct {
	r    *rig
	req  api.EventsRequest
	left string
}

func (r *rig) subscribe(namespace string, index uint64, topics ...string) *subscriber {
	r.t.Helper()
	s := &subscriber{r: r, req: api.EventsRequest{Topics: topics, QueryOptions: api.QueryOptions{Namespace: namespace, MinIndex: index}}}
	if err := s.read(30 * time.Second); err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (s *subscriber) read(wait time.Duration) error {
	s.req.MaxWait = wait
	out, err := s.r.Read(context.Background(), &s.req)
	if err != nil {
		return err
	}
	for _, part := range out.Data {
		s.left += string(part)
	}
	s.req.Cursor = out.Cursor
	return nil
}

// next returns the events of the next line.
func (s *subscriber) next() api.Events {
	s.r.t.Helper()
	for !strings.Contains(s.left, "\n") {
		if err := s.read(30 * time.Second); err != nil {
			s.r.t.Fatal(err)
		}
	}
	line, rest, _ := strings.Cut(s.left, "\n")
	s.left = rest
	var got api.Events
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		s.r.t.Fatalf("%v: %.300s", err, line)
	}
	return got
}

// shown is the topics, types, keys and filter keys of a line.
func shown(line api.Events) string {
	var all []string
	for _, e := range line.Events {
		all = append(all, strings.TrimSpace(strings.Join(append([]string{e.Topic, e.Type, e.Key}, e.FilterKeys...), " ")))
	}
	return strings.Join(all, "; ")
}

func TestOneLinePerIndexInTheOrderOfTheLog(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100)
	s := r.subscribe("*", 0)
	at := r.apply(fsm.KindJobRegister, func(tx *state.Txn) {
		tx.PutJob(&api.Job{ID: "web", Namespace: "default", Name: "web"})
		tx.PutEval(&api.Evaluation{ID: "e1", Namespace: "default", JobID: "web"})
	})
	r.apply(fsm.KindSchedulerConfig, func(tx *state.Txn) { tx.PutNamespace(&api.Namespace{Name: "other"}) })
	r.apply(fsm.KindNodeRegister, func(tx *state.Txn) { tx.PutNode(&api.Node{ID: "n1", SecretID: "hunter2", Status: "ready"}) })
	r.apply(fsm.KindPlanApply, func(tx *state.Txn) {
		tx.PutDeployment(&api.Deployment{ID: "d1", Namespace: "default", JobID: "web"})
		tx.PutAlloc(&api.Allocation{ID: "a1", Namespace: "default", JobID: "web", DeploymentID: "d1", NodeID: "n1", Job: tx.Job("default", "web")})
	})
	r.apply(fsm.KindJobDeregister, func(tx *state.Txn) { tx.DeleteJob("default", "web") })
	r.apply(fsm.KindGCReap, func(tx *state.Txn) { tx.DeleteEval("e1"); tx.DeleteNode("n1") })
	for i, want := range []string{
		"Job JobRegistered web; Evaluation JobRegistered e1 web",
		"Node NodeRegistration n1",
		"Deployment PlanResult d1 web; Allocation PlanResult a1 web d1",
		"Job JobDeregistered web",
	} {
		line := s.next()
		if got := shown(line); got != want && !strings.Contains(got, want) {
			t.Errorf("line %d: %s, want %s", i, got, want)
		}
		if i == 0 && line.Index != at {
			t.Errorf("index %d, want %d", line.Index, at)
		}
		for _, e := range line.Events {
			payload := string(e.Payload)
			switch {
			case strings.Contains(payload, "hunter2"):
				t.Errorf("a secret: %s", payload)
			case e.Topic == api.TopicAllocation && !strings.Contains(payload, `"Job":null`):
				t.Errorf("the allocation has its job: %s", payload)
			case e.Type == "JobDeregistered" && e.Topic == api.TopicJob && !strings.Contains(payload, `"Deleted":true`):
				t.Errorf("the job is not deleted: %s", payload)
			}
		}
	}
	if err := s.read(30 * time.Millisecond); err != nil || s.left != "" {
		t.Errorf("%v and further events: %s", err, s.left)
	}
}

func TestTopicsKeysAndNamespaces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ namespace, topics, want string }{
		{"*", "*", "J0 E0 J1 E1"},
		{"", "*", "J0 E0"},
		{"other", "*", "J1 E1"},
		{"*", "Job", "J0 J1"},
		{"*", "Job:web1 Evaluation:web0", "E0 J1"},
		{"*", "*:web1", "J1 E1"},
		{"*", "Job:* Job:web1", "J0 J1"},
		{"*", "Node", ""},
		{"*", "Job:web0 Job:web1", "J0 J1"},
	} {
		r := newRig(t, 100)
		s := r.subscribe(c.namespace, 0, strings.Fields(c.topics)...)
		for i, ns := range []string{"default", "other"} {
			r.apply(fsm.KindJobRegister, func(tx *state.Txn) {
				tx.PutJob(&api.Job{ID: fmt.Sprintf("web%d", i), Namespace: ns})
				tx.PutEval(&api.Evaluation{ID: fmt.Sprintf("e%d", i), Namespace: ns, JobID: fmt.Sprintf("web%d", i)})
			})
		}
		var got []string
		for len(got) < len(strings.Fields(c.want)) {
			for _, e := range s.next().Events {
				got = append(got, e.Topic[:1]+e.Key[len(e.Key)-1:])
			}
		}
		if err := s.read(50 * time.Millisecond); err != nil || s.left != "" || strings.Join(got, " ") != c.want {
			t.Errorf("%+v: got %v and then %q, %v", c, got, s.left, err)
		}
	}
}

func TestSubscriptionsThatCannotBeServed(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100)
	for topic, want := range map[string]string{
		"Foo": `unknown topic "Foo"`, "": "unknown topic", "Evaluation:::*": "Invalid key value pair", "Job:": "Invalid key value pair", "job": `unknown topic "job"`,
	} {
		_, err := r.Read(t.Context(), &api.EventsRequest{Topics: []string{topic}})
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", topic, err)
		}
	}
	if _, err := r.Read(t.Context(), &api.EventsRequest{Topics: make([]string, 1001)}); !errors.Is(err, fault.Invalid) {
		t.Errorf("too many topics: %v", err)
	}
	off := events.New(events.Config{State: r.state})
	if _, err := off.Read(t.Context(), &api.EventsRequest{}); err == nil || !strings.Contains(err.Error(), "event broker is not enabled") {
		t.Errorf("switched off: %v", err)
	}
}

func TestASubscriptionBeginsAtAnIndex(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	var at []uint64
	for i := range 6 {
		at = append(at, r.eval(fmt.Sprintf("e%d", i), "default"))
	}
	for from, want := range map[uint64]uint64{at[4]: at[4], at[3]: at[3], 1: at[3], at[0]: at[3]} { // the buffer has three
		if got := r.subscribe("*", from).next().Index; got != want {
			t.Errorf("from %d: begins at %d, want %d", from, got, want)
		}
	}
	s := r.subscribe("*", at[5]+5)
	for i := range 8 {
		r.eval(fmt.Sprintf("f%d", i), "default")
	}
	if got := s.next().Index; got != at[5]+5 {
		t.Errorf("an index of the future begins at %d, want %d", got, at[5]+5)
	}
}

func TestSlowSubscribersAndThoseOfARestoredServerAreClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	slow := r.subscribe("*", 0)
	for i := range 9000 { // more than the buffer has for subscribers
		r.eval(fmt.Sprintf("e%d", i), "default")
	}
	if err := slow.read(time.Second); !errors.Is(err, events.ErrBehind) {
		t.Errorf("a slow subscriber: %v", err)
	}
	s := r.subscribe("*", 0)
	waiting := make(chan error, 1)
	go func() { waiting <- s.read(30 * time.Second) }()
	r.buffer.Restored(5)
	if err := <-waiting; !errors.Is(err, events.ErrRestored) {
		t.Errorf("after a restore: %v", err)
	}
	s = r.subscribe("*", 0)
	other := events.New(events.Config{State: r.state, Buffer: r.buffer, ID: "s2"}) // another server continues by the index
	r.eval("after", "default")
	s.req.MaxWait = 30 * time.Second
	out, err := other.Read(t.Context(), &s.req)
	if err != nil || len(out.Data) == 0 || out.Cursor.Server != "s2" {
		t.Errorf("another server: %+v %v", out, err)
	}
}

// TestALargeIndexComesInPieces: one line may be larger than a message between servers.
func TestALargeIndexComesInPieces(t *testing.T) {
	t.Parallel()
	r := newRig(t, 10)
	const n = 1000
	r.apply(fsm.KindEvalUpdate, func(tx *state.Txn) {
		for i := range n {
			tx.PutEval(&api.Evaluation{ID: fmt.Sprintf("%08d", i), Namespace: []string{"default", "other"}[i%2], JobID: strings.Repeat("x", 4000)})
		}
	})
	r.eval("last", "default")
	for namespace, want := range map[string]int{"*": n, "other": n / 2} {
		s := r.subscribe(namespace, 1)
		responses := 0
		for !strings.Contains(s.left, "\n") {
			before := len(s.left)
			if err := s.read(30 * time.Second); err != nil {
				t.Fatal(err)
			}
			if responses++; len(s.left)-before > 512<<10 {
				t.Errorf("a response of %d bytes", len(s.left)-before)
			}
		}
		if responses < 2 {
			t.Errorf("%s: %d responses", namespace, responses)
		}
		line := s.next()
		keys := map[string]bool{}
		for _, e := range line.Events {
			keys[e.Key] = true
		}
		if len(line.Events) != want || len(keys) != want {
			t.Errorf("%s: %d events with %d keys, want %d", namespace, len(line.Events), len(keys), want)
		}
	}
}

func TestEachSubscriberReadsEachIndexOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100)
	const n, readers = 500, 10
	var wait sync.WaitGroup
	for i := range readers {
		s := r.subscribe([]string{"*", "default"}[i%2], 0)
		wait.Go(func() {
			last := uint64(10)
			for last < 10+n {
				line := s.next()
				if line.Index != last+1 || len(line.Events) != 1 {
					t.Errorf("index %d after %d", line.Index, last)
					return
				}
				last = line.Index
			}
		})
	}
	for i := range n {
		r.eval(fmt.Sprintf("e%d", i), "default")
	}
	wait.Wait()
}

func TestEventsOfVolumes(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100)
	s := r.subscribe("*", 0)
	r.apply(fsm.KindVolumeRegister, func(tx *state.Txn) {
		tx.PutVolume(&api.Volume{VolumeSpec: api.VolumeSpec{ID: "v", Name: "vol", Namespace: "default", PluginID: "p", ExternalID: "x", Secrets: map[string]string{"k": "hunter2"}}})
	})
	claim := &api.VolumeClaim{Namespace: "default", VolumeID: "v", AllocID: "a", NodeID: "n", JobID: "web", PluginID: "p", ExternalID: "x", Mode: api.ClaimWrite, State: api.ClaimTaken}
	r.apply(fsm.KindPlanApply, func(tx *state.Txn) {
		tx.PutClaim(claim)
		tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "x", NodeID: "n", State: api.AttachmentPublishing, PublishContext: map[string]string{"k": "hunter2"}})
	})
	r.apply(fsm.KindVolumeUnpublish, func(tx *state.Txn) {
		ready := *claim
		ready.State = api.ClaimReady
		tx.PutClaim(&ready)
	})
	r.apply(fsm.KindVolumeUnpublish, func(tx *state.Txn) { tx.DeleteClaim("default", "v", "a", "") })
	r.apply(fsm.KindNodeRegister, func(tx *state.Txn) {
		tx.PutNode(&api.Node{ID: "n", Status: "ready", CSINodePlugins: map[string]*api.CSIInfo{"p": {PluginID: "p", Healthy: true}}})
	})
	r.apply(fsm.KindNodeEligibility, func(tx *state.Txn) {
		n := *tx.Node("n")
		n.SchedulingEligibility = "ineligible"
		tx.PutNode(&n)
	})
	r.apply(fsm.KindVolumeDeregister, func(tx *state.Txn) { tx.DeleteVolume("default", "v") })
	var all []string
	for i, want := range []string{
		"CSIVolume CSIVolumeRegistered v v vol p",
		"VolumeClaim VolumeClaimTaken v/a v a n web p; VolumeAttachment VolumeAttachmentPublishing x/n x n p v; CSIVolume CSIVolumeClaim v v vol p",
		"VolumeClaim VolumeClaimReady v/a v a n web p; CSIVolume CSIVolumeClaim v v vol p",
		"VolumeClaim VolumeClaimEnded v/a v a n web p; CSIVolume CSIVolumeClaim v v vol p",
		"Node NodeRegistration n; CSIPlugin NodeRegistration p p",
		"Node NodeEligibility n",
		"CSIVolume CSIVolumeDeregistered v v vol p",
	} {
		line := s.next()
		if got := shown(line); got != want {
			t.Errorf("line %d: %s, want %s", i, got, want)
		}
		for _, e := range line.Events {
			all = append(all, string(e.Payload))
		}
	}
	text := strings.Join(all, "\n")
	if strings.Contains(text, "hunter2") {
		t.Errorf("a secret: %s", text)
	}
	for _, want := range []string{`"WriteAllocs":{"a":null}`, `"Phase":"ready","Previous":"taken"`, `"NodesHealthy":1`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// TestTypesOfAccessObjects: their types follow from the row, whatever command changed it.
func TestTypesOfAccessObjects(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100)
	s := r.subscribe("*", 0)
	put := func(tx *state.Txn) {
		tx.PutACLToken(&api.ACLToken{AccessorID: "t", SecretID: "hunter2", SecretHash: "hunter2"})
		tx.PutACLPolicy(&api.ACLPolicy{Name: "p"})
		tx.PutACLRole(&api.ACLRole{ID: "r", Name: "role"})
		tx.PutACLAuthMethod(&api.ACLAuthMethod{Name: "m", Config: &api.ACLAuthMethodConfig{OIDCClientSecret: "hunter2"}})
		tx.PutACLBindingRule(&api.ACLBindingRule{ID: "b", AuthMethod: "m"})
		tx.PutNodePool(&api.NodePool{Name: "gpu"})
	}
	r.apply(fsm.KindACLReplicate, put)
	line := s.next()
	want := "ACLToken ACLTokenUpserted t; ACLPolicy ACLPolicyUpserted p; ACLRole ACLRoleUpserted r role; " +
		"ACLAuthMethod ACLAuthMethodUpserted m; ACLBindingRule ACLBindingRuleUpserted b m; NodePool NodePoolUpserted gpu"
	if got := shown(line); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	for _, e := range line.Events {
		if strings.Contains(string(e.Payload), "hunter2") {
			t.Errorf("a secret: %s", e.Payload)
		}
	}
	r.apply(fsm.KindACLExpire, func(tx *state.Txn) { tx.DeleteACLToken("t") })
	if got := shown(s.next()); got != "ACLToken ACLTokenDeleted t" {
		t.Error(got)
	}
}

// BenchmarkApplied measures what the buffer adds to a command when there are no subscribers.
func BenchmarkApplied(b *testing.B) {
	r := newRig(b, 100)
	changes := []state.Change{{Table: state.TableJobs, After: &api.Job{ID: "j"}}, {Table: state.TableEvals, After: &api.Evaluation{ID: "e"}}}
	b.ReportAllocs()
	for i := range b.N {
		r.buffer.Applied(fsm.KindJobRegister, uint64(i+100), changes)
	}
}
