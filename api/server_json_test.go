package api

import (
	"encoding/json"
	"testing"
	"time"
)

func TestAutopilotDurationsAreTexts(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(DefaultAutopilot())
	want := `{"LastContactThreshold":"200ms","ServerStabilizationTime":"10s","CleanupDeadServers":true,"MaxTrailingLogs":250,"MinQuorum":0,` +
		`"EnableRedundancyZones":false,"DisableUpgradeMigration":false,"EnableCustomUpgrades":false,"CreateIndex":0,"ModifyIndex":0}`
	if err != nil || string(b) != want {
		t.Fatalf("%s %v\nwant %s", b, err, want)
	}
	var c AutopilotConfiguration
	if err := json.Unmarshal(b, &c); err != nil || c != *DefaultAutopilot() {
		t.Errorf("read back %+v %v", c, err)
	}
	if err := json.Unmarshal([]byte(`{"LastContactThreshold":5000000,"MinQuorum":3}`), &c); err != nil || c.LastContactThreshold != 5*time.Millisecond || c.MinQuorum != 3 || c.MaxTrailingLogs != 250 {
		t.Errorf("part: %+v %v", c, err)
	}
	for _, bad := range []string{`{"LastContactThreshold":"soon"}`, `{"LastContactThreshold":[]}`, `{"MinQuorum":-1}`} {
		if err := json.Unmarshal([]byte(bad), &c); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func TestServerHealthReadsWhatItWrites(t *testing.T) {
	t.Parallel()
	h := ServerHealth{ID: "s1", LastContact: 15 * time.Millisecond, Healthy: true, StableSince: time.Unix(1, 0).UTC()}
	b, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var got ServerHealth
	if err := json.Unmarshal(b, &got); err != nil || got != h {
		t.Errorf("%s: %+v %v", b, got, err)
	}
}
