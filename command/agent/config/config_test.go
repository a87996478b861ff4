package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/agent/config"
)

func decode(t *testing.T, c *config.Config, body string) {
	t.Helper()
	if err := c.Decode("a.hcl", []byte(body)); err != nil {
		t.Fatal(err)
	}
}

func TestHCLAndJSONSayTheSame(t *testing.T) {
	hcl := `
region = "eu"
server {
  enabled = true
  heartbeat_grace = "30s"
}
client {
  servers = ["a:1", "b:2"]
  meta { rack = "r1" }
  host_volume "certs" { path = "/etc/certs" }
}
plugin "raw_exec" {
  config { enabled = true }
}`
	json := `{"region":"eu","server":{"enabled":true,"heartbeat_grace":"30s"},
"client":[{"servers":["a:1","b:2"],"meta":{"rack":"r1"},"host_volume":{"certs":{"path":"/etc/certs"}}}],
"plugin":{"raw_exec":{"config":{"enabled":true}}}}`
	for name, body := range map[string]string{"hcl": hcl, "json": json} {
		c := config.Default()
		decode(t, c, body)
		if c.Region != "eu" || !c.Server.Enabled || c.Server.HeartbeatGrace != 30*time.Second ||
			len(c.Client.Servers) != 2 || c.Client.Meta["rack"] != "r1" ||
			c.Client.HostVolumes["certs"].Path != "/etc/certs" || c.Plugins["raw_exec"].Config["enabled"] != true {
			t.Errorf("%s: decoded %+v", name, c)
		}
	}
}

func TestLaterFileChangesOnlyWhatItSays(t *testing.T) {
	c := config.Default()
	decode(t, c, "region = \"eu\"\nclient {\n node_class = \"a\"\n meta { x = \"1\" }\n}")
	decode(t, c, "client {\n node_class = \"b\"\n meta { y = \"2\" }\n}")
	if c.Region != "eu" || c.Client.NodeClass != "b" || c.Client.Meta["x"] != "1" || c.Client.Meta["y"] != "2" {
		t.Fatalf("merged to %+v", c)
	}
	if c.Client.GCMaxAllocs != 50 {
		t.Fatalf("default lost: %d", c.Client.GCMaxAllocs)
	}
}

func TestUnknownKeyIsNamedWithItsPlace(t *testing.T) {
	for body, want := range map[string]string{
		"region = \"a\"\nclient {\n  node_clas = \"x\"\n}": `a.hcl:3:3: unknown key "client.node_clas"; did you mean "node_class"?`,
		`{"server":{"bogus":1}}`:                           `a.hcl:1:12: unknown key "server.bogus"`,
		"client {\n  gc_max_allocs = \"many\"\n}":          `a.hcl:2:19: client.gc_max_allocs: a number is needed`,
		"server {\n  heartbeat_grace = \"soon\"\n}":        `"soon" is not a duration`,
		"region = ":  "a.hcl:1:",
		"client = 5": "client must be a block",
	} {
		err := config.Default().Decode("a.hcl", []byte(body))
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, fault.Invalid) {
			t.Errorf("%q: got %v, want %s", body, err, want)
		}
	}
}

func TestKnownButUnusedKeyIsAWarning(t *testing.T) {
	c := config.Default()
	decode(t, c, "telemetry {\n  disable_quota_utilization_metrics = true\n}")
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "telemetry.disable_quota_utilization_metrics is not used") {
		t.Fatalf("warnings are %q", c.Warnings)
	}
}

func TestBlocksOfNeighbouringSystemsLoadWithAWarning(t *testing.T) {
	for _, body := range []string{
		"consul {\n  address = \"127.0.0.1:8500\"\n}", "vault {\n  enabled = true\n}", "vault \"other\" {\n  address = \"x\"\n}", `{"vault": {"enabled": false}}`,
	} {
		c := config.Default()
		decode(t, c, body)
		if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "is not used by this version") {
			t.Errorf("%s: warnings are %q", body, c.Warnings)
		}
	}
}

func TestLifetimesOfTokensAreChecked(t *testing.T) {
	for body, want := range map[string]string{
		`token_min_expiration_ttl = "48h"`:  "acl.token_min_expiration_ttl 48h0m0s is above token_max_expiration_ttl 24h0m0s",
		`token_max_expiration_ttl = "30s"`:  "acl.token_min_expiration_ttl 1m0s is above token_max_expiration_ttl 30s",
		`token_ttl = "-1s"`:                 "acl.token_ttl -1s is negative",
		`token_max_expiration_ttl = "720h"`: "",
	} {
		c := config.Default()
		c.DataDir, c.Server.Enabled = "/data", true
		decode(t, c, "acl {\n  "+body+"\n}")
		if err := c.Validate(); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestDeepNestingIsRefused(t *testing.T) {
	for _, body := range []string{"a = " + strings.Repeat("[", 300_000), strings.Repeat(`{"a":`, 200_000)} {
		if err := config.Default().Decode("a.hcl", []byte(body)); err == nil || !strings.Contains(err.Error(), "nested deeper") {
			t.Errorf("got %v", err)
		}
	}
}

func TestDirectoryIsReadByNameWithoutTemporaries(t *testing.T) {
	dir := t.TempDir()
	for name, body := range map[string]string{
		"20.hcl": `region = "second"`, "10.hcl": "region = \"first\"\ndatacenter = \"d\"",
		"30.hcl~": "bogus = 1", ".#40.hcl": "bogus = 1", "readme.txt": "bogus",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := config.Default()
	if err := c.Load(dir); err != nil {
		t.Fatal(err)
	}
	if c.Region != "second" || c.Datacenter != "d" || len(c.Files) != 2 {
		t.Fatalf("read %q into %q", c.Files, c.Region)
	}
}

func TestMissingFileIsNamed(t *testing.T) {
	err := config.Default().Load("/nonexistent/x.hcl")
	if err == nil || !strings.Contains(err.Error(), "/nonexistent/x.hcl") {
		t.Fatalf("got %v", err)
	}
}

func TestValidateReportsEverything(t *testing.T) {
	c := config.Default()
	c.DataDir, c.Client.NodePool, c.BindAddr = "relative", "all", "nowhere"
	err := c.Validate()
	if err == nil {
		t.Fatal("nothing was reported")
	}
	for _, want := range []string{"neither server nor client", `data_dir "relative"`, "node_pool", "bind_addr"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}

func TestCoresAndHostNetworks(t *testing.T) {
	c := config.Default()
	decode(t, c, `data_dir = "/var/lib/x"
client {
  enabled = true
  reservable_cores = "1-3"
  reserved { cores = "0" }
  host_network "public" {
    cidr = "192.0.2.0/24"
    reserved_ports = "22"
  }
}`)
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if h := c.Client.HostNetworks["public"]; c.Client.Reserved.Cores != "0" || c.Client.ReservableCores != "1-3" || h.CIDR != "192.0.2.0/24" || h.ReservedPorts != "22" {
		t.Errorf("%+v", c.Client)
	}
	for text, want := range map[string]string{
		`client { host_network "x" {} }`:                                      `"x" needs a cidr`,
		`client { host_network "x" { cidr = "nowhere" } }`:                    `cidr "nowhere"`,
		`client { artifact { http_max_size = "x" } }`:                         "client.artifact.http_max_size",
		`client { artifact { git_timeout = "-1s" } }`:                         "client.artifact.git_timeout is negative",
		`client { artifact { filesystem_isolation_extra_paths = ["/opt"] } }`: "kind:rights:/path",
		`client { reserved { cores = "a" } }`:                                 "client.reserved.cores",
		`client { reservable_cores = "3-1" }`:                                 "client.reservable_cores",
		`server { client_introduction { enforcement = "all" } }`:              "none of none, warn and strict",
		`server { client_introduction { default_identity_ttl = "2h" } }`:      "default_identity_ttl 2h0m0s is not between",
	} {
		c := config.Default()
		decode(t, c, text)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestDevNeedsNoFile(t *testing.T) {
	c := config.Default()
	c.SetDev()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if c.Plugins["raw_exec"].Config["enabled"] != true {
		t.Fatal("raw_exec is off")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("client {\n meta { a = 1 }\n}")
	f.Add(`{"plugin":[{"raw_exec":[{"config":{"enabled":true}}]}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		_ = config.Default().Decode("f", []byte(body)) // must answer, not panic
	})
}

func TestSeveralKeysOnOneLine(t *testing.T) {
	for name, body := range map[string]string{
		"blanks": `server { enabled = true bootstrap_expect = 3 server_join { retry_join = ["a", "b"] retry_max = 2 } }
client { enabled = true meta { x = "1" y = "a # {b}" } servers = ["c:1"] node_class = "k" } region = "eu" # end`,
		"commas": `server { enabled = true, bootstrap_expect = 3, server_join { retry_join = ["a", "b"], retry_max = 2 } }, region = "eu",
client { enabled = true, meta = { x = "1", y = "a # {b}" }, servers = ["c:1"], node_class = "k", }`,
		"quoted keys": `"server" { "enabled" = true "bootstrap_expect" = 3 "server_join" { "retry_join" = ["a", "b"] "retry_max" = 2 } }
client { enabled = true meta { "x" = "1" "y" = "a # {b}" } servers = ["c:1"] node_class = "k" options { "a.b" = "1" } } region = "eu"`,
		"blocks without an equals sign, and with free keys": `server { enabled = true
 bootstrap_expect = 3
 server_join { retry_join = ["a", "b"]
 retry_max = 2 } }
client { enabled = true
 meta = { x = "1", "y" = "a # {b}" }
 chroot_env { "/bin" = "/bin" }
 servers = ["c:1"], node_class = "k" }
region = "eu"`,
		"one key a line": `"server" {
  "enabled" = true
  bootstrap_expect = 3
  "server_join" {
    retry_join = ["a", "b"], retry_max = 2
  }
}
client { enabled = true meta { "x" = "1"
 "y" = "a # {b}" }
 servers = [
   "c:1",
 ]
 node_class = <<EOT
k
EOT
}
region = "eu"`,
	} {
		c := config.Default()
		if err := c.Decode("a.hcl", []byte(body)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !c.Server.Enabled || c.Server.BootstrapExpect != 3 || len(c.Server.ServerJoin.RetryJoin) != 2 || c.Server.ServerJoin.RetryMax != 2 ||
			!c.Client.Enabled || c.Client.Meta["x"] != "1" || c.Client.Meta["y"] != "a # {b}" || strings.TrimSpace(c.Client.NodeClass) != "k" || c.Region != "eu" {
			t.Errorf("%s: decoded %+v", name, c)
		}
	}
}

func TestMistakesOnALineOfSeveralKeysAreFound(t *testing.T) {
	for body, want := range map[string]string{
		"region = \"eu\"\nserver { enabled = true bootstap = 3 }":               "a.hcl:2:25:",
		"client { enabled = true, meta { x = \"1\" } } server { enabled = 12 }": "a.hcl:1:64:",
		"client { enabled = true } }":                                           "a.hcl:1:",
		"client { enabled = true enabled { } = }":                               "a.hcl:1:",
		"client { enabled = true meta { x = 1 + 2 } }":                          "a.hcl:1:",
		"client { enabled = true servers = [ }":                                 "a.hcl:1:",
	} {
		err := config.Default().Decode("a.hcl", []byte(body))
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

func TestLimitsHaveDefaultsAndBounds(t *testing.T) {
	c := config.Default()
	if want := (config.Limits{HTTPConnsPerClient: 100, HTTPSHandshake: 5 * time.Second, RPCConnsPerClient: 100, RPCHandshake: 5 * time.Second}); c.Limits != want {
		t.Errorf("defaults are %+v", c.Limits)
	}
	decode(t, c, "limits {\n rpc_max_conns_per_client = 0\n http_max_conns_per_client = 7\n rpc_handshake_timeout = \"1s\"\n https_handshake_timeout = \"-1s\"\n}")
	if c.Limits.RPCConnsPerClient != 0 || c.Limits.HTTPConnsPerClient != 7 || c.Limits.RPCHandshake != time.Second {
		t.Errorf("limits are %+v", c.Limits)
	}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "limits.https_handshake_timeout is negative") {
		t.Errorf("a negative time: %v", err)
	}
}

func TestKeyThatMayNotBeIgnoredIsRefusedUnlessItSaysNothing(t *testing.T) {
	for body, want := range map[string]string{
		"server {\n non_voting_server = true\n}":                           "server.non_voting_server is not in this version",
		"server {\n non_voting_server = false\n}":                          "",
		"sentinel {\n import \"x\" { path = \"y\" }\n}":                    "sentinel is not in this version",
		"autopilot {\n enable_redundancy_zones = true\n min_quorum = 3\n}": "autopilot.enable_redundancy_zones",
		"client { users {\n dynamic_user_min = 1000\n} }":                  "tasks of exec run as nobody or as their user",
		"client { users {\n dynamic_user_max = 89999\n} }":                 "",
	} {
		c := config.Default()
		err := c.Decode("a.hcl", []byte(body))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
		if want == "" && len(c.Warnings) == 0 {
			t.Errorf("%s: taken in silence", body)
		}
	}
}

func TestKeyringBlocks(t *testing.T) {
	c := config.Default()
	decode(t, c, `
keyring "aead" { active = true }
keyring "transit" {
  active  = true
  address = "https://vault:8200"
  token   = "canary"
}
keyring "awskms" { name = "old" }`)
	decode(t, c, `{"keyring": [{"transit": {"active": false, "key_name": "k"}}, {"transit": {"name": "b", "active": true}}]}`)
	var got []string
	for _, k := range c.Keyrings {
		got = append(got, fmt.Sprint(k.ID(), " ", k.Active, " ", k.Config))
	}
	if want := "aead true map[]\nawskms.old false map[]\ntransit false map[key_name:k]\ntransit.b true map[]"; strings.Join(got, "\n") != want {
		t.Errorf("%s, want %s", strings.Join(got, "\n"), want)
	}
	if shown := fmt.Sprint(c.Shown()); strings.Contains(shown, "key_name") || !strings.Contains(shown, "transit") {
		t.Error("the configuration is shown with the keys of providers, or without the provider")
	}
	for body, want := range map[string]string{
		`keyring "rot13" { active = true }`:            `keyring "rot13" is not a block of a known provider: want one of aead, awskms, azurekeyvault, gcpckms, transit`,
		`keyring { active = true }`:                    `keyring "active" is not a block`,
		`keyring "transit" { active = "x" }`:           "active must be true or false",
		"keyring \"transit\" {\n tls {\n a = 1 \n}\n}": "tls must be a value",
	} {
		if err := config.Default().Decode("a.hcl", []byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

func TestWhatANewClusterBeginsWith(t *testing.T) {
	c := config.Default()
	decode(t, c, `
server {
  enabled = true
  job_max_count = 7
  job_max_source_size = "2MiB"
  default_scheduler_config {
    scheduler_algorithm = "spread"
    memory_oversubscription_enabled = true
    preemption_config { service_scheduler_enabled = true }
  }
}
autopilot { cleanup_dead_servers = false }
http_api_response_headers { Access-Control-Allow-Origin = "*" }
data_dir = "/d"`)
	s := c.Server.Scheduler
	if s.Algorithm != "spread" || !s.MemoryOversubscribed || !s.Preemption.Service || !s.Preemption.System || c.Server.JobMaxCount != 7 || c.Server.JobMaxSource != "2MiB" ||
		c.Autopilot.CleanupDeadServers || c.Autopilot.MaxTrailingLogs != 250 || c.HTTPHeaders["Access-Control-Allow-Origin"] != "*" {
		t.Errorf("decoded %+v", c)
	}
	if err := c.Validate(); err != nil || len(c.Warnings) > 0 {
		t.Errorf("%v, %v", err, c.Warnings)
	}
	c.Server.Scheduler.Algorithm, c.Autopilot.MinQuorum, c.Server.JobMaxSource = "best", -1, "5MiB"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), `job_max_source_size "5MiB"`) || !strings.Contains(err.Error(), "best") || !strings.Contains(err.Error(), "min_quorum is negative") {
		t.Error(err)
	}
}

func TestValuesThatAreThereTwiceAndLabelsAreRefused(t *testing.T) {
	for body, want := range map[string]string{
		"region = \"a\"\nregion = \"b\"":       "a.hcl:2:1: region is defined twice; the first is on line 1",
		"client {\n meta { a = 1, a = 2 }\n}":  "a.hcl:2:16: a is defined twice",
		"client \"x\" {\n enabled = true\n}":   `a.hcl:1:1: client takes no label such as "x"`,
		"plugin \"a\" \"b\" {}":                "a.hcl:1:1: plugin needs one label",
		`{"plugin": {"raw_exec": 5}}`:          `a.hcl:1:13: plugin "raw_exec" must be a block`,
		"client {\n enabled = true":            `a.hcl:1:8: "{" is never closed`,
		"client {\n enabled = true\n}\n}\nx=1": `a.hcl:4:1: "}" closes nothing`,
		"region = # nothing":                   "a.hcl:1:8: a value is needed",
	} {
		err := config.Default().Decode("a.hcl", []byte(body))
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, fault.Invalid) {
			t.Errorf("%q: got %v, want %s", body, err, want)
		}
	}
}

func TestConfigurationOfADriverKeepsItsShape(t *testing.T) {
	for name, body := range map[string]string{
		"hcl":  "plugin \"x\" {\n config {\n n = 5\n f = 1.5\n on = true\n list = [\"a\", 2]\n gc { image = true }\n gc { after = \"3m\" }\n auth \"a\" { user = \"u\" }\n }\n}",
		"json": `{"plugin": {"x": {"config": [{"n": 5, "f": 1.5, "on": true, "list": ["a", 2], "gc": [{"image": true, "after": "3m"}], "auth": {"a": {"user": "u"}}}]}}}`,
	} {
		c := config.Default()
		decode(t, c, body)
		want := map[string]any{
			"n": int64(5), "f": 1.5, "on": true, "list": []any{"a", int64(2)}, "gc": map[string]any{"image": true, "after": "3m"},
			"auth": map[string]any{"a": map[string]any{"user": "u"}},
		}
		if got := c.Plugins["x"].Config; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v", name, got)
		}
	}
}
