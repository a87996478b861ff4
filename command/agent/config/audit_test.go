package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/config"
)

func TestSinksOfTheAuditLogHaveDefaults(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]config.AuditFile{
		"": {Name: "audit", Path: "/data/audit/audit.json", Enforced: true, Mode: 0o600, RotateDuration: 24 * time.Hour},
		`sink "a" {
			type = "file"
			format = "json"
			delivery_guarantee = "best-effort"
			path = "/log/"
			mode = "0640"
			rotate_bytes = 100
			rotate_duration = "1h"
			rotate_max_files = 3
		}`: {Name: "a", Path: "/log/audit.json", Mode: 0o640, RotateBytes: 100, RotateDuration: time.Hour, RotateMaxFiles: 3},
	} {
		c := config.Default()
		c.DataDir, c.Server.Enabled = "/data", true
		decode(t, c, "audit {\n enabled = true\n"+body+"\n}")
		if got := c.Audit.Files("/data"); c.Validate() != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%v: %+v", c.Validate(), got)
		}
		c.Audit.Enabled = false
		if got := c.Audit.Files("/data"); got != nil {
			t.Errorf("files of a log that is off: %+v", got)
		}
	}
}

func TestMistakesOfTheAuditLogAreRefused(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"sink \"a\" {\n type = \"syslog\"\n}":                          `a.hcl:4:9: audit.sink.type: "syslog" is not one of file`,
		"sink \"a\" {\n format = \"text\"\n}":                          `a.hcl:4:11: audit.sink.format: "text" is not one of json`,
		"sink \"a\" {\n delivery_guarantee = \"some\"\n}":              `a.hcl:4:23: audit.sink.delivery_guarantee: "some" is not one of enforced, best-effort`,
		"sink \"a\" {\n mode = \"0888\"\n}":                            `a.hcl:4:9: audit.sink.mode: "0888" is not a mode`,
		"sink \"a\" {\n path = \"audit.json\"\n}":                      `a.hcl:4:9: audit.sink.path: "audit.json" must be absolute`,
		"sink \"a\" {\n rotate_bytes = -1\n}":                          `a.hcl:4:17: audit.sink.rotate_bytes: a negative value`,
		"sink \"a\" {\n rotate_duration = \"-1s\"\n}":                  `a.hcl:4:20: audit.sink.rotate_duration: a negative value`,
		"sink \"a\" {\n paht = \"/a\"\n}":                              `a.hcl:4:2: unknown key "audit.sink.paht"; did you mean "path"?`,
		"filter \"f\" {\n type = \"RPCEvent\"\n}":                      `a.hcl:4:9: audit.filter.type: "RPCEvent" is not one of HTTPEvent`,
		"filter \"f\" {\n stages = [\"Received\"]\n}":                  `a.hcl:4:11: audit.filter.stages: "Received" is not one of OperationReceived`,
		"filter \"f\" {\n operations = [\"get\"]\n}":                   `a.hcl:4:15: audit.filter.operations: "get" is not one of GET`,
		"filter \"f\" {\n endpoints = [\"v1/jobs\"]\n}":                `a.hcl:4:14: audit.filter.endpoints: "v1/jobs" is not a path`,
		"filter \"f\" {\n endpoints = [\"*\"]\n stages=[\"*\"]\n}":     `audit.filter "f" has no operations: write operations = ["*"] for all of them`,
		"sink \"a\" {\n path=\"/a\"\n}\nsink \"b\" {\n path=\"/a\"\n}": `audit.sink "a" and "b" have the same path /a`,
	} {
		c := config.Default()
		c.DataDir, c.Server.Enabled = "/data", true
		err := c.Decode("a.hcl", []byte("audit {\n enabled = true\n"+body+"\n}"))
		if err == nil {
			err = c.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}
