package command_test

import (
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func TestQuotaExamplesAreApplied(t *testing.T) {
	a := newAgent(t, map[string]any{"PUT /v1/quota": ""})
	var bodies []string
	for _, format := range [][]string{{"-json=false"}, {"-json"}} {
		path := filepath.Join(t.TempDir(), "spec")
		run(t, nil, "", append([]string{"quota", "init", path}, format...)...).want(t, 0, "written to "+path)
		run(t, a, "", append([]string{"quota", "apply", path}, format...)...).wantOut(t, "Successfully applied quota specification \"default-quota\"!\n")
		bodies = append(bodies, a.bodies["PUT /v1/quota"])
	}
	if bodies[0] != bodies[1] {
		t.Errorf("HCL %s\nJSON %s", bodies[0], bodies[1])
	}
	run(t, a, `{"Name": "x", "Limit": []}`, "quota", "apply", "-").want(t, 1, `unknown key "Limit"`)
	run(t, a, "name = \"x\"\nlimits {}\n", "quota", "apply", "-").want(t, 1, `stdin:2:1: unknown key "limits"; did you mean "limit"?`)
	run(t, a, "name = \"x\"\nlimit {\n  region_limit {\n    device \"gpu\" {\n      count = 2\n    }\n    node_pool \"p\" {\n      cpu = -1\n    }\n  }\n}\n", "quota", "apply", "-").want(t, 0)
	a.has(t, "PUT /v1/quota", `{"Name": "x", "Limits": [{"Region": "", "Hash": null, "VariablesLimit": null, "RegionLimit": {"CPU": null, "Cores": null, "MemoryMB": null,
		"MemoryMaxMB": null, "NUMA": null, "SecretsMB": null, "Storage": null, "Devices": [{"Name": "gpu", "Count": 2, "Constraints": null, "Affinities": null}],
		"NodePools": [{"NodePool": "p", "CPU": -1, "Cores": null, "MemoryMB": null, "MemoryMaxMB": null, "NUMA": null, "SecretsMB": null, "Storage": null, "Devices": null}]}}]}`)
	run(t, a, "name = \"x\"\nlimit {\n  region_limit {\n    device {\n    }\n  }\n}\n", "quota", "apply", "-").want(t, 1, "device needs one label")
}

func TestQuotaUsageIsShown(t *testing.T) {
	n := func(i int) *int { return &i }
	quota := &api.QuotaSpec{Name: "small", Description: "d", Limits: []*api.QuotaLimit{{Region: "global", RegionLimit: &api.QuotaResources{
		CPU: n(2500), MemoryMB: n(-1), Storage: &api.QuotaStorageResources{Volumes: 10}, NodePools: []*api.NodePoolLimit{{NodePool: "gpu", CPU: n(1000)}},
	}}}}
	usage := &api.QuotaUsage{Name: "small", Used: map[string]*api.QuotaLimit{"h": {Region: "global", RegionLimit: &api.QuotaResources{
		CPU: n(500), MemoryMB: n(256), Storage: &api.QuotaStorageResources{Volumes: 3},
	}}}}
	a := newAgent(t, map[string]any{
		"GET /v1/quotas": []*api.QuotaSpec{quota}, "GET /v1/quota/small": quota, "GET /v1/quota/usage/small": usage,
		"GET /v1/namespaces": []*api.Namespace{{Name: "dev", Quota: "small"}, {Name: "dev-2"}},
	})
	const tables = `
Quota Limits
Region  CPU Usage   Core Usage  Memory Usage  Memory Max Usage  Variables Usage  Volumes
global  500 / 2500  0 / inf     256 / 0       0 / inf           0 / inf          3 / 10

Node Pool Limits
Region  Node Pool  CPU Usage  Core Usage  Memory Usage  Memory Max Usage  Variables Usage
global  gpu        0 / 1000   0 / inf     0 / inf       0 / inf           0 / inf
`
	run(t, a, "", "quota", "status", "sma").wantOut(t, "Name        = small\nDescription = d\nLimits      = 1\n"+tables)
	run(t, a, "", "quota", "list").wantOut(t, "Name   Description\nsmall  d\n")
	run(t, a, "", "quota", "inspect", "-t", "{{.Name}} {{.Usage.Name}}", "small").wantOut(t, "small small\n")
	run(t, a, "", "namespace", "status", "dev").wantOut(t, "Name        = dev\nDescription = <none>\nQuota       = small\n"+tables)
}

func TestNamespaceFiles(t *testing.T) {
	a := newAgent(t, map[string]any{"PUT /v1/namespace/dev": "", "GET /v1/namespace/dev": &api.Namespace{Name: "dev", Description: "old", Meta: map[string]string{"a": "b"}}})
	hcl := file(t, "dev.hcl", `
name        = "dev"
description = "file"
quota       = "small"
meta {
  owner = "x"
}
capabilities {
  enabled_task_drivers = ["exec"]
}
node_pool_config {
  default = "dev"
  denied  = ["gpu"]
}
`)
	run(t, a, "", "namespace", "apply", "-description", "flag", hcl).wantOut(t, "Successfully applied namespace \"dev\"!\n")
	a.has(t, "PUT /v1/namespace/dev", `{"Name": "dev", "Description": "flag", "Quota": "small", "Meta": {"owner": "x"},
		"Capabilities": {"EnabledTaskDrivers": ["exec"], "DisabledTaskDrivers": null, "EnabledNetworkModes": null, "DisabledNetworkModes": null},
		"NodePoolConfiguration": {"Default": "dev", "Allowed": null, "Denied": ["gpu"]}}`)
	run(t, a, `{"Name": "dev", "Quota": "q"}`, "namespace", "apply", "-json", "-").want(t, 0)
	a.has(t, "PUT /v1/namespace/dev", `{"Name": "dev", "Quota": "q", "Meta": null}`)
	run(t, a, "", "namespace", "apply", "-quota", "q", "dev").want(t, 0)
	a.has(t, "PUT /v1/namespace/dev", `{"Quota": "q", "Description": "old", "Meta": {"a": "b"}}`)
	run(t, a, "description = \"x\"\n", "namespace", "apply", "-").want(t, 1, "has no name")
}
