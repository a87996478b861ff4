package command_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
)

func doctorAgent(t *testing.T, severity string) *agent {
	t.Helper()
	found := []*api.StorageFinding{{
		Namespace: "default", VolumeID: "data", PluginID: "p", Kind: "node-lost", Severity: severity, Text: "allocation a1 holds the volume", TaskState: "running (web running)",
		Next: "it is detached by its storage", NextAt: time.Now().Add(time.Hour).UnixNano(), Command: "nomad volume detach -force data n1", Repair: api.RepairRetry,
	}}
	return newAgent(t, map[string]any{
		"GET /v1/volumes": []*api.VolumeStub{{ID: "data", Namespace: "default"}}, "GET /v1/volumes/doctor": rest.VolumeReport{Volumes: 2, Findings: found},
		"GET /v1/volume/csi/data/doctor": rest.VolumeReport{Volumes: 1, Findings: found},
		"PUT /v1/volume/csi/data/doctor": rest.VolumeRepairs{Repairs: []*api.VolumeRepair{{Repair: api.RepairRetry, Text: "the failed calls are made now"}}, Findings: found},
		"GET /v1/volume/csi/data/timeline": []*api.VolumeEvent{
			{Time: 1, What: "detach", Result: "failed", NodeID: "n1", Text: "busy", Took: 1500 * time.Microsecond, Count: 3},
		},
		"GET /v1/plugins": []*api.PluginStub{{ID: "p"}},
		"GET /v1/plugin/csi/p/doctor": rest.PluginsReport{
			Plugins:  []*api.PluginReport{{ID: "p", Instances: []*api.PluginInstance{{NodeID: "n1", NodeName: "one", Type: "node", Asked: true, Ready: true, Provider: "prov", Version: "2"}}}},
			Findings: []*api.StorageFinding{{PluginID: "p", Kind: "versions-differ", Severity: severity, Text: "2 versions"}},
		},
	})
}

func TestDoctorsExitByWhatTheyFind(t *testing.T) {
	for severity, code := range map[string]int{api.SeverityError: 2, api.SeverityWarning: 2, api.SeverityInfo: 0} {
		a := doctorAgent(t, severity)
		run(t, a, "", "volume", "doctor").want(t, code, "["+severity+"] node-lost: volume \"data\"", "allocation a1 holds", "running (web running)", "it is detached by its storage (", "nomad volume detach -force data n1", "2")
		run(t, a, "", "volume", "doctor", "-json", "data").want(t, code, `"Kind": "node-lost"`)
		run(t, a, "", "plugin", "doctor", "p").want(t, code, "ready", "prov", "versions-differ")
	}
	run(t, doctorAgent(t, api.SeverityError), "", "volume", "doctor", "-yes").want(t, 1, "-fix")
}

func TestDoctorRepairsAfterAQuestion(t *testing.T) {
	a := doctorAgent(t, api.SeverityError)
	run(t, a, "n\n", "volume", "doctor", "-fix", "data").want(t, 0, "Make the repairs", "No repair was made")
	run(t, a, "", "volume", "doctor", "-fix", "-yes", "data").want(t, 2, "the failed calls are made now", "Left", "node-lost")
}

func TestTimelineIsPrinted(t *testing.T) {
	a := doctorAgent(t, api.SeverityError)
	run(t, a, "", "volume", "timeline", "-n", "5", "data").want(t, 0, "detach", "failed (3 times)", "busy", "2ms")
	if q := a.query(t, "GET /v1/volume/csi/data/timeline"); q.Get("last") != "5" {
		t.Errorf("asked for %v", q)
	}
	run(t, a, "", "volume", "timeline", "-n", "-1", "data").want(t, 1, "-n")
}
