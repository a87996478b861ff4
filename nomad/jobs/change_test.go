package jobs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// sized registers the job with another count, and so a new version.
func (r *fixture) sized(count int) *api.JobRegisterResponse {
	j := web()
	j.TaskGroups[0].Count = count
	out, err := r.Register(r.t.Context(), &api.JobRegisterRequest{Job: j, Submission: &api.JobSubmission{Source: strings.Repeat("x", count)}})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *fixture) versions() []uint64 {
	var out []uint64
	for _, v := range r.store.Read().JobVersions("default", "web") {
		out = append(out, v.Version)
	}
	return out
}

func TestRevertRegistersTheOldVersionAnew(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.sized(1)
	r.sized(2)
	out, err := r.Revert(t.Context(), &api.JobRevertRequest{JobID: "web", JobVersion: 0})
	if err != nil {
		t.Fatal(err)
	}
	j := r.get("web")
	if j.Version != 2 || j.TaskGroups[0].Count != 1 || j.Stable || out.JobModifyIndex != out.Index || r.store.Read().Eval(out.EvalID) == nil {
		t.Errorf("version %d, count %d, answer %+v", j.Version, j.TaskGroups[0].Count, out)
	}
	if source := r.store.Read().JobSubmission("default", "web", 2); source == nil || source.Source != "x" {
		t.Errorf("source %+v", source)
	}
	prior := uint64(1)
	for _, c := range []struct {
		q     api.JobRevertRequest
		class fault.Class
		text  string
	}{
		{api.JobRevertRequest{JobID: "web", JobVersion: 2}, fault.Invalid, "its current version 2"},
		{api.JobRevertRequest{JobID: "web", JobVersion: 9}, fault.NotFound, "no version 9"},
		{api.JobRevertRequest{JobID: "none"}, fault.NotFound, "job not found"},
		{api.JobRevertRequest{JobID: "web", EnforcePriorVersion: &prior}, fault.Conflict, "enforcing version 1: job \"web\" is at version 2"},
		{api.JobRevertRequest{}, fault.Invalid, "JobID must be specified"},
	} {
		_, err := r.Revert(t.Context(), &c.q)
		refused(t, err, c.class, c.text)
	}
}

func TestTagsKeepVersions(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.sized(1)
	tag := func(q api.JobTagRequest) (*api.JobTagResponse, error) {
		q.JobID = "web"
		return r.Tag(t.Context(), &q)
	}
	out, err := tag(api.JobTagRequest{Name: "golden", Description: "keep", Latest: true})
	if err != nil || out.Name != "golden" || out.Description != "keep" || out.TaggedTime == 0 {
		t.Fatalf("%+v %v", out, err)
	}
	for _, q := range []api.JobTagRequest{{Name: "\x1b", Latest: true}, {Name: "a", Description: "\x1b", Latest: true}} {
		_, err := tag(q)
		refused(t, err, fault.Invalid, "contains the character U+001B")
	}
	r.sized(2)
	if _, err := r.Stable(t.Context(), &api.JobStabilityRequest{JobID: "web", JobVersion: 1, Stable: true}); err != nil {
		t.Fatal(err)
	}
	for n := 3; n < 8; n++ {
		r.sized(n)
	}
	if got := r.versions(); len(got) != 5 || got[3] != 1 || got[4] != 0 {
		t.Errorf("kept %v, want the newest 3, the stable 1 and the tagged 0", got)
	}
	_, err = tag(api.JobTagRequest{Name: "golden", Version: 6})
	refused(t, err, fault.Invalid, "already exists on version 0")
	_, err = tag(api.JobTagRequest{Name: "new", Version: 99})
	refused(t, err, fault.NotFound, "no version 99")
	_, err = tag(api.JobTagRequest{})
	refused(t, err, fault.Invalid, "needs a name")
	diffs, err := r.Versions(t.Context(), &api.JobVersionsRequest{JobID: "web", DiffTag: "golden"})
	if err != nil || len(diffs.Diffs) != len(diffs.Versions) || diffs.Diffs[0].TaskGroups[0].Fields[0].Old != "1" || diffs.Diffs[4].Type != "None" {
		t.Errorf("differences %+v %v", diffs, err)
	}
	if _, err = tag(api.JobTagRequest{Name: "golden", Unset: true}); err != nil {
		t.Fatal(err)
	}
	if got := r.versions(); len(got) != 4 {
		t.Errorf("kept %v without the tag", got)
	}
	_, err = tag(api.JobTagRequest{Name: "golden", Unset: true})
	refused(t, err, fault.NotFound, `no version with the tag "golden"`)
	_, err = r.Versions(t.Context(), &api.JobVersionsRequest{JobID: "web", DiffTag: "golden"})
	refused(t, err, fault.NotFound, `no version with the tag "golden"`)
}

func TestTaggedVersionsAreBounded(t *testing.T) {
	t.Parallel()
	r := open(t)
	tag := func(name string, unset bool) error {
		_, err := r.Tag(t.Context(), &api.JobTagRequest{JobID: "web", Name: name, Latest: true, Unset: unset})
		return err
	}
	for n := range 100 {
		r.sized(n + 1)
		if err := tag(fmt.Sprint("v", n), false); err != nil {
			t.Fatal(err)
		}
	}
	r.sized(200)
	refused(t, tag("v100", false), fault.Invalid, "has 100 versions with tags")
	if err := tag("v7", true); err != nil {
		t.Fatal(err)
	}
	if err := tag("v100", false); err != nil {
		t.Error(err)
	}
}

func (r *fixture) scale(count int64, edit func(*api.JobScaleRequest)) (*api.JobRegisterResponse, error) {
	q := &api.JobScaleRequest{JobID: "web", Target: map[string]string{"Group": "g"}, Count: &count}
	if edit != nil {
		edit(q)
	}
	return r.Scale(r.t.Context(), q)
}

func TestScale(t *testing.T) {
	t.Parallel()
	r := open(t)
	j := web()
	j.TaskGroups[0].Scaling = &api.ScalingPolicy{Min: 1, Max: 5, Enabled: true}
	r.register(j)
	out, err := r.scale(3, func(q *api.JobScaleRequest) { q.Message, q.Meta = "more", map[string]any{"why": "load"} })
	if err != nil {
		t.Fatal(err)
	}
	e := r.store.Read().Eval(out.EvalID)
	if e == nil || e.TriggeredBy != api.TriggerScaling || r.get("web").TaskGroups[0].Count != 3 || out.JobModifyIndex != out.Index {
		t.Errorf("evaluation %+v, answer %+v", e, out)
	}
	status, err := r.ScaleStatus(t.Context(), &api.JobRequest{JobID: "web"})
	if err != nil || status.JobScaleStatus == nil {
		t.Fatal(err)
	}
	g := status.JobScaleStatus.TaskGroups["g"]
	if g.Desired != 3 || len(g.Events) != 1 || *g.Events[0].Count != 3 || g.Events[0].PreviousCount != 2 || *g.Events[0].EvalID != out.EvalID || g.Events[0].Message != "more" {
		t.Errorf("status %+v, events %+v", g, g.Events)
	}
	only, err := r.Scale(t.Context(), &api.JobScaleRequest{JobID: "web", Target: map[string]string{"Group": "g"}, Error: true, Message: "no metrics"})
	if err != nil || only.EvalID != "" || r.get("web").Version != 1 {
		t.Errorf("only an event: %+v %v", only, err)
	}
	for range 30 {
		if _, err := r.Scale(t.Context(), &api.JobScaleRequest{JobID: "web", Target: map[string]string{"Group": "g"}, Message: "again"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.store.Read().JobScaling("default", "web").Groups["g"]); n != 20 {
		t.Errorf("%d events are kept", n)
	}
}

func TestScaleIsRefused(t *testing.T) {
	t.Parallel()
	r := open(t)
	j := web()
	j.TaskGroups[0].Scaling = &api.ScalingPolicy{Min: 1, Max: 5, Enabled: true}
	r.register(j)
	before := r.store.Read().Index()
	for _, c := range []struct {
		count int64
		edit  func(*api.JobScaleRequest)
		class fault.Class
		text  string
	}{
		{99, nil, fault.Invalid, "group count was greater than scaling policy maximum: 99 > 5"},
		{0, nil, fault.Invalid, "group count was less than scaling policy minimum: 0 < 1"},
		{-1, nil, fault.Invalid, "is negative"},
		{1, func(q *api.JobScaleRequest) { q.Target["Group"] = "zz" }, fault.Invalid, `task group "zz" specified for scaling does not exist in job`},
		{1, func(q *api.JobScaleRequest) { q.Target = nil }, fault.Invalid, "task group name"},
		{1, func(q *api.JobScaleRequest) { q.JobID = "none" }, fault.NotFound, "job not found"},
		{1, func(q *api.JobScaleRequest) { q.Error = true }, fault.Invalid, "should not contain count"},
		{1, func(q *api.JobScaleRequest) { q.JobModifyIndex = 7 }, fault.Conflict, "Enforcing job modify index 7"},
	} {
		_, err := r.scale(c.count, c.edit)
		refused(t, err, c.class, c.text)
	}
	if tx := r.store.Read(); tx.JobScaling("default", "web") != nil || tx.TableIndex(state.TableJobs, state.TableEvals) > before {
		t.Error("what was refused left something")
	}
	r.put(func(tx *state.Txn) {
		tx.PutDeployment(&api.Deployment{ID: "d", Namespace: "default", JobID: "web", JobCreateIndex: tx.Job("default", "web").CreateIndex, Status: "paused"})
	})
	_, err := r.scale(2, nil)
	refused(t, err, fault.Invalid, "job scaling blocked due to active deployment")
}

func TestPoliciesHaveStableIDs(t *testing.T) {
	t.Parallel()
	r := open(t)
	policy := func(maximum int64) *api.ScalingPolicy {
		j := web()
		j.TaskGroups[0].Scaling = &api.ScalingPolicy{Min: 1, Max: maximum, Enabled: true, Type: "horizontal"}
		r.register(j)
		out, err := r.Policies(t.Context(), &api.ScalingPolicyListRequest{JobID: "web", Type: "horizontal"})
		if err != nil || len(out.Policies) != 1 {
			t.Fatalf("%+v %v", out, err)
		}
		return out.Policies[0]
	}
	first, again, changed := policy(5), policy(5), policy(6)
	if first.ID == "" || first.Target["Group"] != "g" || first.Target["Job"] != "web" || again.ID != first.ID || again.ModifyIndex != first.ModifyIndex {
		t.Errorf("first %+v, again %+v", first, again)
	}
	if changed.ID != first.ID || changed.CreateIndex != first.CreateIndex || changed.ModifyIndex <= first.ModifyIndex {
		t.Errorf("first %+v, changed %+v", first, changed)
	}
	if v := r.get("web").Version; v != 1 {
		t.Errorf("version %d after one change", v)
	}
	one, err := r.Policy(t.Context(), &api.NameRequest{Name: first.ID})
	if err != nil || one.Policy == nil || one.Policy.Max != 6 {
		t.Errorf("%+v %v", one, err)
	}
	if one, err = r.Policy(t.Context(), &api.NameRequest{Name: "none"}); err != nil || one.Policy != nil {
		t.Errorf("%+v %v", one, err)
	}
}

func template(t *testing.T, r *fixture, p *api.ParameterizedJobConfig) {
	t.Helper()
	j := web()
	j.ID, j.Type, j.ParameterizedJob, j.Meta = "par", api.JobTypeBatch, p, map[string]string{"team": "x"}
	if out := r.register(j); out.EvalID != "" {
		t.Error("a template is evaluated")
	}
}

func TestDispatch(t *testing.T) {
	t.Parallel()
	r := open(t)
	template(t, r, &api.ParameterizedJobConfig{Payload: "optional", MetaRequired: []string{"who"}, MetaOptional: []string{"opt"}})
	out, err := r.Dispatch(t.Context(), &api.JobDispatchRequest{
		JobID: "par", Payload: []byte("hello"), Meta: map[string]string{"who": "me"}, Priority: 70, IDPrefixTemplate: "pfx", IdempotencyToken: "abc",
	})
	if err != nil {
		t.Fatal(err)
	}
	j := r.get(out.DispatchedJobID)
	if !strings.HasPrefix(out.DispatchedJobID, "par/dispatch-pfx-") || j.ParentID != "par" || !j.Dispatched || j.Priority != 70 ||
		j.Meta["who"] != "me" || j.Meta["team"] != "x" || j.ParameterizedJob != nil || out.JobCreateIndex != j.CreateIndex || j.Name != j.ID {
		t.Errorf("answer %+v, instance %+v", out, j)
	}
	if opt, set := j.Meta["opt"]; opt != "" || !set {
		t.Errorf("an optional key that is not given: %+v", j.Meta)
	}
	if plain, err := snappy.Decode(nil, j.Payload); err != nil || string(plain) != "hello" {
		t.Errorf("payload %q %v", plain, err)
	}
	if e := r.store.Read().Eval(out.EvalID); e == nil || e.JobID != j.ID || e.Priority != 70 {
		t.Errorf("evaluation %+v", e)
	}
	again, err := r.Dispatch(t.Context(), &api.JobDispatchRequest{JobID: "par", IdempotencyToken: "abc"})
	if err != nil || again.DispatchedJobID != out.DispatchedJobID || again.EvalID != "" || again.JobCreateIndex != out.JobCreateIndex {
		t.Errorf("again %+v %v", again, err)
	}
	sum, err := r.Summary(t.Context(), &api.JobRequest{JobID: "par"})
	if err != nil || sum.JobSummary.Children == nil || sum.JobSummary.Children.Pending != 1 {
		t.Errorf("summary %+v %v", sum.JobSummary, err)
	}
	r.stop(&api.JobDeregisterRequest{JobID: out.DispatchedJobID})
	r.stop(&api.JobDeregisterRequest{JobID: "par"})
	sum, err = r.Summary(t.Context(), &api.JobRequest{JobID: "par"})
	if err != nil || sum.JobSummary.Children.Dead != 1 {
		t.Errorf("summary %+v %v", sum.JobSummary.Children, err)
	}
	_, err = r.Dispatch(t.Context(), &api.JobDispatchRequest{JobID: "par", Meta: map[string]string{"who": "me"}})
	refused(t, err, fault.Invalid, "is stopped")
	r.stop(&api.JobDeregisterRequest{JobID: "par", Purge: true})
	if r.get(out.DispatchedJobID) == nil {
		t.Error("an instance went with its template")
	}
}

func TestDispatchIsRefused(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(web())
	template(t, r, &api.ParameterizedJobConfig{Payload: "forbidden", MetaRequired: []string{"who"}})
	who := map[string]string{"who": "me"}
	before := r.store.Read().TableIndex(state.TableJobs)
	for _, c := range []struct {
		q     api.JobDispatchRequest
		class fault.Class
		text  string
	}{
		{api.JobDispatchRequest{JobID: "web"}, fault.Invalid, `Specified job "web" is not a parameterized job`},
		{api.JobDispatchRequest{JobID: "none"}, fault.NotFound, "job not found"},
		{api.JobDispatchRequest{}, fault.Invalid, "missing parameterized job ID"},
		{api.JobDispatchRequest{JobID: "par"}, fault.Invalid, "Dispatch did not provide required meta keys: [who]"},
		{api.JobDispatchRequest{JobID: "par", Meta: map[string]string{"who": "x", "zz": "1"}}, fault.Invalid, "Dispatch request included unpermitted metadata keys: [zz]"},
		{api.JobDispatchRequest{JobID: "par", Meta: who, Payload: []byte("x")}, fault.Invalid, "forbidden"},
		{api.JobDispatchRequest{JobID: "par", Meta: who, Payload: make([]byte, 16<<10+1)}, fault.Invalid, "16385 > 16384"},
		{api.JobDispatchRequest{JobID: "par", Meta: who, Priority: 101}, fault.Invalid, "priority 101"},
		{api.JobDispatchRequest{JobID: "par", Meta: who, IDPrefixTemplate: "a b"}, fault.Invalid, `"a b"`},
		{api.JobDispatchRequest{JobID: "par", Meta: who, IDPrefixTemplate: "\u202e"}, fault.Invalid, `id prefix "\u202e" contains the character U+202E`},
		{api.JobDispatchRequest{JobID: "par", Meta: who, IdempotencyToken: strings.Repeat("t", 257)}, fault.Invalid, "idempotency token"},
		{api.JobDispatchRequest{JobID: "par", Meta: who, IdempotencyToken: "a\x1b[2J"}, fault.Invalid, "idempotency token"},
	} {
		_, err := r.Dispatch(t.Context(), &c.q)
		refused(t, err, c.class, c.text)
	}
	if r.store.Read().TableIndex(state.TableJobs) != before {
		t.Error("a refused dispatch changed jobs")
	}
}

// What a row leaves out can be asked for, and the status is the one that is shown.
func TestFilterSeesWholeJobs(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(web())
	j := web()
	j.ID, j.Type, j.Periodic = "per", api.JobTypeBatch, &api.PeriodicConfig{Enabled: true, Specs: []string{"0 0 1 1 *"}, TimeZone: "UTC"}
	r.register(j)
	for expression, want := range map[string]int{
		`Periodic is not nil`: 1, `Periodic is nil and Type == "service"`: 1, `ParameterizedJob is nil`: 2, `TaskGroups is not empty`: 2,
		`Version == 0`: 2, `Status == "running"`: 1, `Status == "pending"`: 1, `Nope is nil`: -1,
	} {
		list, err := r.List(t.Context(), &api.JobListRequest{QueryOptions: api.QueryOptions{Filter: expression}})
		switch {
		case want < 0 && fault.Of(err) != fault.Invalid, want >= 0 && (err != nil || len(list.Jobs) != want):
			t.Errorf("%s: %+v %v", expression, list, err)
		}
	}
}

func TestPeriodicForce(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(web())
	j := web()
	j.ID, j.Type, j.Periodic = "per", api.JobTypeBatch, &api.PeriodicConfig{Enabled: true, Specs: []string{"0 0 1 1 *"}, TimeZone: "UTC", ProhibitOverlap: true}
	if out := r.register(j); out.EvalID != "" {
		t.Error("a template is evaluated")
	}
	for range 3 {
		out, err := r.PeriodicForce(t.Context(), &api.JobRequest{JobID: "per"})
		if err != nil || r.store.Read().Eval(out.EvalID) == nil || out.EvalCreateIndex != out.Index {
			t.Fatalf("%+v %v", out, err)
		}
	}
	list, err := r.List(t.Context(), &api.JobListRequest{QueryOptions: api.QueryOptions{Prefix: "per"}})
	if err != nil || len(list.Jobs) != 4 || list.Jobs[0].JobSummary.Children.Pending != 3 || list.Jobs[0].Status != "running" {
		t.Errorf("%+v %v", list.Jobs, err)
	}
	_, err = r.PeriodicForce(t.Context(), &api.JobRequest{JobID: "web"})
	refused(t, err, fault.Invalid, "can't force launch non-periodic job")
	_, err = r.PeriodicForce(t.Context(), &api.JobRequest{JobID: "none"})
	refused(t, err, fault.NotFound, "job not found")
	plan, err := r.Plan(t.Context(), &api.JobPlanRequest{Job: again(j)})
	if err != nil || plan.NextPeriodicLaunch.IsZero() || len(plan.CreatedEvals) > 0 {
		t.Errorf("%+v %v", plan, err)
	}
}

// again is the periodic job as a user would send it anew.
func again(j *api.Job) *api.Job {
	next := web()
	next.ID, next.Type, next.Periodic = j.ID, j.Type, j.Periodic
	return next
}
