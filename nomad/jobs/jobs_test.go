package jobs_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/jobs"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func registry() *fsm.Registry { return fsm.NewRegistry(jobs.Commands) }

type fixture struct {
	*jobs.Service
	t     testing.TB
	store *state.Store
	// before is called before each command; nil does nothing.
	before func()
	raft   *fsm.Local
}

// Propose implements [fsm.Proposer].
func (r *fixture) Propose(ctx context.Context, c fsm.Command) (fsm.Result, error) {
	if r.before != nil {
		r.before()
	}
	return r.raft.Propose(ctx, c)
}

func open(t testing.TB) *fixture {
	t.Helper()
	s := state.New()
	r := &fixture{t: t, store: s, raft: fsm.NewLocal(s, registry())}
	r.Service = jobs.New(jobs.Config{
		State: s, Raft: r, Versions: 3,
		Preview: func(_ *state.Txn, j *api.Job) *jobs.Preview {
			return &jobs.Preview{
				Annotations: &api.PlanAnnotations{DesiredTGUpdates: map[string]*api.DesiredUpdates{"g": {Place: 2}}},
				Created:     []*api.Evaluation{{ID: "preview", JobID: j.ID, JobModifyIndex: j.JobModifyIndex}},
			}
		},
	})
	return r
}

func (r *fixture) put(fn func(*state.Txn)) {
	tx := r.store.Write(r.store.Read().Index()+1, time.Now())
	fn(tx)
	tx.Commit()
}

// web is a new job on each call: what was registered must not be changed.
func web() *api.Job {
	return &api.Job{ID: "web", TaskGroups: []*api.TaskGroup{{
		Name: "g", Count: 2, Tasks: []*api.Task{{Name: "t", Driver: "raw_exec", Config: map[string]any{"command": "/bin/true", "n": 1.0}}},
	}}}
}

func (r *fixture) register(j *api.Job) *api.JobRegisterResponse {
	r.t.Helper()
	out, err := r.Register(r.t.Context(), &api.JobRegisterRequest{Job: j})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *fixture) get(id string) *api.Job {
	r.t.Helper()
	out, err := r.Get(r.t.Context(), &api.JobRequest{JobID: id})
	if err != nil {
		r.t.Fatal(err)
	}
	return out.Job
}

func refused(t *testing.T, err error, class fault.Class, text string) {
	t.Helper()
	if !errors.Is(err, class) || !strings.Contains(err.Error(), text) {
		t.Errorf("want %v with %q, got %v", class, text, err)
	}
}

func TestRegisterStoresJobVersionSourceAndEvaluation(t *testing.T) {
	t.Parallel()
	r := open(t)
	out, err := r.Register(t.Context(), &api.JobRegisterRequest{Job: web(), EvalPriority: 70, Submission: &api.JobSubmission{Source: "job \"web\" {}", Format: "hcl2"}})
	if err != nil {
		t.Fatal(err)
	}
	if out.EvalID == "" || out.EvalCreateIndex != out.Index || out.JobModifyIndex != out.Index {
		t.Errorf("answer %+v", out)
	}
	tx := r.store.Read()
	e := tx.Eval(out.EvalID)
	if e == nil || e.JobID != "web" || e.Status != api.EvalStatusPending || e.Priority != 70 || e.TriggeredBy != api.TriggerJobRegister {
		t.Errorf("evaluation %+v", e)
	}
	j := r.get("web")
	if j == nil || j.Version != 0 || j.Namespace != "default" || j.Type != "service" || j.NodePool != "default" || !slices.Equal(j.Datacenters, []string{"*"}) || j.SubmitTime == 0 {
		t.Errorf("job %+v", j)
	}
	sub, err := r.Submission(t.Context(), &api.JobRequest{JobID: "web"})
	if err != nil || sub.Submission == nil || sub.Submission.Source != "job \"web\" {}" {
		t.Errorf("source %+v %v", sub, err)
	}
}

func TestVersionCountsUpOnlyWithTheSpecification(t *testing.T) {
	t.Parallel()
	r := open(t)
	first := r.register(web())
	again := r.register(web())
	if again.EvalID == "" || again.EvalID == first.EvalID {
		t.Error("registering again makes no evaluation")
	}
	if again.JobModifyIndex != first.JobModifyIndex {
		t.Errorf("the modify index went from %d to %d without a change", first.JobModifyIndex, again.JobModifyIndex)
	}
	empty := web()
	empty.Meta, empty.Affinities, empty.TaskGroups[0].Tasks[0].Env = map[string]string{}, []*api.Affinity{}, map[string]string{}
	r.register(empty)
	if v := r.get("web").Version; v != 0 {
		t.Errorf("empty maps made version %d", v)
	}
	changed := web()
	changed.TaskGroups[0].Count = 3
	if out := r.register(changed); out.JobModifyIndex != out.Index || r.get("web").Version != 1 {
		t.Errorf("a change made version %d, %+v", r.get("web").Version, out)
	}
}

// Clients read jobs of all types with an update block, and send it back.
func TestAnEmptyUpdateBlockOfABatchJobIsNoChange(t *testing.T) {
	t.Parallel()
	r := open(t)
	j := web()
	j.Type = api.JobTypeBatch
	r.register(j)
	again := web()
	again.Type, again.Update = api.JobTypeBatch, &api.UpdateStrategy{}
	r.register(again)
	if got := r.get("web"); got.Version != 0 || got.Update != nil {
		t.Errorf("version %d, update %+v", got.Version, got.Update)
	}
}

func TestVersionsArePrunedAndCompared(t *testing.T) {
	t.Parallel()
	r := open(t)
	for n := range 5 {
		j := web()
		j.TaskGroups[0].Count = n + 1
		r.register(j)
	}
	out, err := r.Versions(t.Context(), &api.JobVersionsRequest{JobID: "web", Diffs: true})
	if err != nil || len(out.Versions) != 3 || out.Versions[0].Version != 4 || out.Versions[2].Version != 2 {
		t.Fatalf("%d versions, %v", len(out.Versions), err)
	}
	if len(out.Diffs) != 2 {
		t.Fatalf("%d differences", len(out.Diffs))
	}
	if f := out.Diffs[0].TaskGroups[0].Fields; len(f) != 1 || f[0].Name != "Count" || f[0].Old != "4" || f[0].New != "5" {
		t.Errorf("difference %+v", f)
	}
}

func TestRegisterWithAnIndex(t *testing.T) {
	t.Parallel()
	r := open(t)
	at := func(index uint64) error {
		j := web()
		j.Priority = 60
		_, err := r.Register(t.Context(), &api.JobRegisterRequest{Job: j, EnforceIndex: true, JobModifyIndex: index})
		return err
	}
	refused(t, at(7), fault.Conflict, "Enforcing job modify index 7: job does not exist")
	out := r.register(web())
	refused(t, at(0), fault.Conflict, "Enforcing job modify index 0: job already exists")
	refused(t, at(9999), fault.Conflict, "Enforcing job modify index 9999: job exists with conflicting job modify index")
	if r.get("web").Version != 0 {
		t.Error("a refused registration was stored")
	}
	if err := at(out.JobModifyIndex); err != nil {
		t.Errorf("the current index is refused: %v", err)
	}
}

func TestRegisterKeepsWhatItIsAskedTo(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(web())
	j := web()
	j.TaskGroups[0].Count, j.TaskGroups[0].Tasks[0].Resources = 9, &api.Resources{CPU: 900, MemoryMB: 900}
	if _, err := r.Register(t.Context(), &api.JobRegisterRequest{Job: j, PreserveCounts: true, PreserveResources: true}); err != nil {
		t.Fatal(err)
	}
	g := r.get("web").TaskGroups[0]
	if g.Count != 2 || g.Tasks[0].Resources.CPU != 100 {
		t.Errorf("count %d, cpu %d", g.Count, g.Tasks[0].Resources.CPU)
	}
}

func TestRegisterRefuses(t *testing.T) {
	t.Parallel()
	r := open(t)
	for text, change := range map[string]func(*api.Job){
		`nonexistent namespace "nowhere"`: func(j *api.Job) { j.Namespace = "nowhere" },
		`nonexistent namespace "*"`:       func(j *api.Job) { j.Namespace = "*" },
		`node pool "deep" does not exist`: func(j *api.Job) { j.NodePool = "deep" },
		"group 2 or a task of it is null": func(j *api.Job) { j.TaskGroups = append(j.TaskGroups, nil) },
		"no driver":                       func(j *api.Job) { j.TaskGroups[0].Tasks[0].Driver = "" },
	} {
		j := web()
		change(j)
		_, err := r.Register(t.Context(), &api.JobRegisterRequest{Job: j})
		refused(t, err, fault.Invalid, text)
	}
	_, err := r.Register(t.Context(), &api.JobRegisterRequest{})
	refused(t, err, fault.Invalid, "no job")
	r.put(func(tx *state.Txn) { tx.PutSchedulerConfig(&api.SchedulerConfiguration{RejectJobRegistration: true}) })
	_, err = r.Register(t.Context(), &api.JobRegisterRequest{Job: web()})
	refused(t, err, fault.Denied, "disabled by the scheduler configuration")
}

func TestTypeOfAJobStays(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(web())
	j := web()
	j.Type = api.JobTypeBatch
	before := r.store.Read().Index()
	const text = `cannot update job from type "service" to "batch"`
	_, err := r.Register(t.Context(), &api.JobRegisterRequest{Job: again(j)})
	refused(t, err, fault.Invalid, text)
	_, err = r.Plan(t.Context(), &api.JobPlanRequest{Job: again(j)})
	refused(t, err, fault.Invalid, text)
	if r.store.Read().Index() != before {
		t.Error("something was written")
	}
	r.stop(&api.JobDeregisterRequest{JobID: "web", Purge: true})
	r.register(again(j))
}

func TestUnknownTimeZoneIsRefused(t *testing.T) {
	t.Parallel()
	r := open(t)
	j := web()
	j.Type, j.Periodic = api.JobTypeBatch, &api.PeriodicConfig{Enabled: true, Specs: []string{"@daily"}, TimeZone: "Moon/Crater"}
	_, err := r.Register(t.Context(), &api.JobRegisterRequest{Job: j})
	refused(t, err, fault.Invalid, `time_zone "Moon/Crater"`)
}

func TestValidateListsEverything(t *testing.T) {
	t.Parallel()
	r := open(t)
	j := web()
	j.Priority, j.TaskGroups[0].Count, j.TaskGroups[0].Tasks[0].Driver = 999, -1, ""
	out, err := r.Validate(t.Context(), &api.JobValidateRequest{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(out.ValidationErrors, "\n")
	for _, want := range []string{"999", "-1", "driver"} {
		if !strings.Contains(all, want) || !strings.Contains(out.Error, want) {
			t.Errorf("%q is missing in %q and %q", want, all, out.Error)
		}
	}
	if out, err := r.Validate(t.Context(), &api.JobValidateRequest{Job: web()}); err != nil || out.Error != "" || len(out.ValidationErrors) > 0 {
		t.Errorf("a valid job: %+v %v", out, err)
	}
}
