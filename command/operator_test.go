package command_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func TestOperatorAPI(t *testing.T) {
	answers := map[string]any{"GET /v1/jobs": jobs("web"), "PUT /v1/system/gc": "", "PUT /v1/jobs/parse": "{}", "GET /v1/job/a%2Fb": "{}"}
	a := newAgent(t, answers)
	run(t, a, "", "operator", "api", "/v1/jobs?prefix=w", "-filter", `Status == "running"`).want(t, 0, `"ID":"web"`)
	if !a.wasAsked("GET /v1/jobs?filter=Status+%3D%3D+%22running%22&prefix=w") {
		t.Errorf("asked %v", a.asked)
	}
	run(t, a, "", "operator", "api", "/v1/job/a%2Fb").want(t, 0, "{}")
	run(t, a, "", "operator", "api", "-X", "put", "system/gc").want(t, 0)
	run(t, a, "", "operator", "api", "/v1/jobs/parse", `{"JobHCL":""}`).want(t, 0)
	run(t, a, `{"x":1}`, "operator", "api", "/v1/jobs/parse", "-").want(t, 0)
	if a.bodies["PUT /v1/jobs/parse"] != `{"x":1}` {
		t.Errorf("body %q", a.bodies["PUT /v1/jobs/parse"])
	}
}

func TestOperatorAPIDryRunHidesSecrets(t *testing.T) {
	a := newAgent(t, nil)
	o := run(t, a, "", "operator", "api", "-dryrun", "-token", "hunter2", "-H", "X-Note: it's", "-X", "POST", "/v1/jobs", `{"a":1}`)
	o.want(t, 0, "curl -X POST", `"X-Nomad-Token: ${NOMAD_TOKEN}"`, `'X-Note: it'\''s'`, `--data-binary '{"a":1}'`, a.URL+"/v1/jobs")
	if strings.Contains(o.out+o.err, "hunter2") || len(a.asked) > 0 {
		t.Errorf("secret shown or request sent: %s %v", o.out, a.asked)
	}
	b := newAgent(t, map[string]any{"GET /v1/jobs": jobs("web")})
	o = run(t, b, "", "operator", "api", "-verbose", "-token", "hunter2", "/v1/jobs?token=hunter2&prefix=w")
	o.want(t, 0, "> GET /v1/jobs", "> X-Nomad-Token: <redacted>", "< 200 OK", "< X-Nomad-Index: 7")
	if strings.Contains(o.out+o.err, "hunter2") {
		t.Errorf("secret shown: %s", o.err)
	}
	run(t, b, "", "operator", "api", "-H", "nonsense", "/v1/jobs").want(t, 1, `value 1 of -H is not "Name: value"`)
}

func TestSettingsNameFlagAndValue(t *testing.T) {
	a := newAgent(t, map[string]any{
		"GET /v1/operator/autopilot/configuration": &api.AutopilotConfiguration{},
		"GET /v1/operator/scheduler/configuration": &api.SchedulerConfigResponse{SchedulerConfig: &api.SchedulerConfiguration{ModifyIndex: 3}},
		"PUT /v1/operator/scheduler/configuration": &api.SchedulerConfigWriteResponse{Updated: true},
	})
	for flag, want := range map[string]string{
		"-cleanup-dead-servers=perhaps": `-cleanup-dead-servers "perhaps" is not a truth value`, "-max-trailing-logs=-1": `-max-trailing-logs "-1" is not a number`,
		"-last-contact-threshold=soon": `-last-contact-threshold "soon" is not a duration`, "-min-quorum=": `-min-quorum "" is not a number`,
	} {
		run(t, a, "", "operator", "autopilot", "set-config", flag).want(t, 1, want)
	}
	run(t, a, "", "operator", "scheduler", "set-config", "-pause-eval-broker=perhaps").want(t, 1, `-pause-eval-broker "perhaps"`)
	run(t, a, "", "operator", "scheduler", "set-config", "-node-limit-for-feasibility-checks=x").want(t, 1, `-node-limit-for-feasibility-checks "x"`)
	run(t, a, "", "operator", "scheduler", "set-config", "-node-limit-for-feasibility-checks=7", "-preempt-batch-scheduler=true").want(t, 0, "updated")
	if body := a.bodies["PUT /v1/operator/scheduler/configuration"]; !strings.Contains(body, `"NodeLimitForFeasibilityChecks":7`) || !strings.Contains(body, `"BatchSchedulerEnabled":true`) {
		t.Errorf("sent %s", body)
	}
}

func TestOperatorMetrics(t *testing.T) {
	a := newAgent(t, map[string]any{"GET /v1/metrics": map[string]any{"Timestamp": "now", "Gauges": []map[string]any{{"Name": "nomad.a", "Value": 1}}}})
	run(t, a, "", "operator", "metrics").want(t, 0, `"Name":"nomad.a"`)
	run(t, a, "", "operator", "metrics", "-pretty").want(t, 0, "\n  \"Timestamp\": \"now\"")
	run(t, a, "", "operator", "metrics", "-t", "{{range .Gauges}}{{.Name}}={{.Value}}{{end}}").want(t, 0, "nomad.a=1")
	run(t, a, "", "operator", "metrics", "-format", "prometheus").want(t, 0)
	if !a.wasAsked("GET /v1/metrics?format=prometheus") {
		t.Errorf("asked %v", a.asked)
	}
	run(t, a, "", "operator", "metrics", "-format", "xml").want(t, 1, `format "xml" is neither json nor prometheus`)
	run(t, a, "", "operator", "metrics", "-format", "prometheus", "-pretty").want(t, 1, "leave out -json, -t and -pretty")
}
