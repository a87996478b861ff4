package jobs_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func (r *fixture) namespace(n api.Namespace) {
	n.Name = "default"
	r.put(func(tx *state.Txn) {
		for _, pool := range []string{"gpu", "gpu-large", "cpu"} {
			tx.PutNodePool(&api.NodePool{Name: pool})
		}
		tx.PutNamespace(&n)
	})
}

func pools(fallback, allowed, denied string) api.Namespace {
	return api.Namespace{NodePoolConfiguration: &api.NamespaceNodePoolConfiguration{
		Default: fallback, Allowed: strings.Fields(allowed), Denied: strings.Fields(denied),
	}}
}

func capabilities(c api.NamespaceCapabilities) api.Namespace { return api.Namespace{Capabilities: &c} }

func TestNamespaceLimitsItsJobs(t *testing.T) {
	t.Parallel()
	driver := `namespace "default" does not permit task driver "raw_exec" of task "t" of group "g": it permits `
	for _, c := range []struct {
		name, pool string
		n          api.Namespace
		want       string
	}{
		{"nothing is limited", "", capabilities(api.NamespaceCapabilities{}), ""},
		{"driver enabled", "", capabilities(api.NamespaceCapabilities{EnabledTaskDrivers: []string{"docker", "raw_exec"}}), ""},
		{"driver not enabled", "", capabilities(api.NamespaceCapabilities{EnabledTaskDrivers: []string{"docker", "exec"}}), driver + "docker, exec"},
		{"driver disabled", "", capabilities(api.NamespaceCapabilities{DisabledTaskDrivers: []string{"raw_exec"}}), driver + "all but raw_exec"},
		{"mode enabled", "", capabilities(api.NamespaceCapabilities{EnabledNetworkModes: []string{"host"}}), ""},
		{"mode not enabled", "", capabilities(api.NamespaceCapabilities{EnabledNetworkModes: []string{"bridge"}}), `does not permit network mode "host" of group "g": it permits bridge`},
		{"mode disabled", "", capabilities(api.NamespaceCapabilities{DisabledNetworkModes: []string{"host"}}), `does not permit network mode "host" of group "g": it permits all but host`},
		{"claims permitted", "", api.Namespace{OptionalExtraClaims: map[string]string{"team": ""}, RequiredExtraClaims: map[string]string{"org": "x"}}, ""},
		{"claim not permitted", "", api.Namespace{OptionalExtraClaims: map[string]string{"team": "red"}}, `does not permit extra claim "org" of identity "aws" of task "t" of group "g": it permits team`},
		{"pool allowed", "gpu-large", pools("", "gpu*", ""), ""},
		{"default pool is allowed", "default", pools("", "gpu*", ""), ""},
		{"pool not allowed", "cpu", pools("gpu", "gpu-* gpu", ""), `namespace "default" does not permit node pool "cpu": it permits gpu-*, gpu and its default gpu`},
		{"pool denied", "gpu", pools("", "", "gpu*"), `does not permit node pool "gpu": it permits all but gpu*`},
		{"pool not denied", "cpu", pools("", "", "gpu*"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := open(t)
			r.namespace(c.n)
			j := web()
			if strings.Contains(c.name, "claim") {
				j.TaskGroups[0].Tasks[0].Identities = []*api.WorkloadIdentity{{Name: "aws", ExtraClaims: []string{"team", "org"}}}
			}
			j.NodePool, j.TaskGroups[0].Networks = c.pool, []*api.NetworkResource{{}}
			_, err := r.Register(t.Context(), &api.JobRegisterRequest{Job: j})
			_, planned := r.Plan(t.Context(), &api.JobPlanRequest{Job: j})
			valid, failed := r.Validate(t.Context(), &api.JobValidateRequest{Job: j})
			if failed != nil {
				t.Fatal(failed)
			}
			if c.want == "" {
				if err != nil || planned != nil || valid.Error != "" {
					t.Errorf("refused: %v, %v, %s", err, planned, valid.Error)
				}
				return
			}
			refused(t, err, fault.Invalid, c.want)
			refused(t, planned, fault.Invalid, c.want)
			if !strings.Contains(valid.Error, c.want) {
				t.Errorf("validation says %q", valid.Error)
			}
		})
	}
}

func TestJobGetsTheDefaultPoolOfItsNamespace(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.namespace(pools("gpu", "", ""))
	r.register(web())
	named := web()
	named.ID, named.NodePool = "named", "cpu"
	r.register(named)
	if got, own := r.get("web").NodePool, r.get("named").NodePool; got != "gpu" || own != "cpu" {
		t.Errorf("node pools %q and %q", got, own)
	}
}

// What was registered before the namespace was limited can be made smaller, and nothing more is started of it.
func TestNamespaceLimitsWhatWasRegisteredBefore(t *testing.T) {
	t.Parallel()
	r := open(t)
	r.register(web())
	second := web()
	second.TaskGroups[0].Tasks[0].Driver = "exec"
	second.TaskGroups[0].Tasks[0].Config = map[string]any{"command": "/bin/true"}
	r.register(second)
	batch := web()
	batch.ID, batch.Type, batch.ParameterizedJob = "batch", api.JobTypeBatch, &api.ParameterizedJobConfig{Payload: "optional"}
	r.register(batch)
	periodic := web()
	periodic.ID, periodic.Type, periodic.Periodic = "periodic", api.JobTypeBatch, &api.PeriodicConfig{Enabled: true, Spec: "@daily"}
	r.register(periodic)
	r.namespace(capabilities(api.NamespaceCapabilities{DisabledTaskDrivers: []string{"raw_exec"}}))
	const want = `does not permit task driver "raw_exec"`
	_, err := r.Revert(t.Context(), &api.JobRevertRequest{JobID: "web", JobVersion: 0})
	refused(t, err, fault.Invalid, want)
	_, err = r.Dispatch(t.Context(), &api.JobDispatchRequest{JobID: "batch"})
	refused(t, err, fault.Invalid, want)
	_, err = r.PeriodicForce(t.Context(), &api.JobRequest{JobID: "periodic"})
	refused(t, err, fault.Invalid, want)
	r.namespace(capabilities(api.NamespaceCapabilities{EnabledTaskDrivers: []string{"raw_exec"}}))
	scale := func(count int64) error {
		_, err := r.Scale(t.Context(), &api.JobScaleRequest{JobID: "web", Target: map[string]string{"Group": "g"}, Count: &count})
		return err
	}
	refused(t, scale(3), fault.Invalid, `does not permit task driver "exec"`)
	if err := scale(1); err != nil {
		t.Error(err)
	}
}
