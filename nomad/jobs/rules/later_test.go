package rules_test

import (
	"os"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/apitest"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
)

// What becomes of each field of a job stands in testdata/fields.tsv: done, refused (with "not in this version"),
// warned (ignored without harm, with a warning that names it), or server (the servers write it). A new field has to be
// listed there, and what is listed is looked at here.
func TestEveryFieldOfAJobIsDoneOrRefusedOrNamedInAWarning(t *testing.T) {
	t.Parallel()
	body, err := os.ReadFile("testdata/fields.tsv")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}
	for line := range strings.Lines(string(body)) {
		path, kind, _ := strings.Cut(strings.TrimSpace(line), "\t")
		kinds[path] = kind
	}
	for _, f := range apitest.Fields(&api.Job{}) {
		kind := kinds[f.Path]
		delete(kinds, f.Path)
		j := &api.Job{ID: "j"}
		f.Set(j)
		if strings.HasPrefix(f.Path, "TaskGroups[].Networks[].DNS") || f.Path == "TaskGroups[].Networks[].Hostname" {
			j.TaskGroups[0].Networks[0].Mode = "bridge" // which they are for
		}
		if strings.HasPrefix(f.Path, "TaskGroups[].Networks[].CNI") {
			j.TaskGroups[0].Networks[0].Mode = "cni/web"
		}
		errs, warnings := rules.Later(j), rules.Warnings(j, false)
		switch kind {
		case "refused":
			if len(errs) == 0 {
				t.Errorf("%s is taken in silence", f.Path)
			}
		case "warned":
			if warnings == "" {
				t.Errorf("%s is ignored in silence", f.Path)
			}
		case "done", "server":
			if len(errs) > 0 {
				t.Errorf("%s is done, and refused: %v", f.Path, errs)
			}
		default:
			t.Errorf("%s: say in testdata/fields.tsv what becomes of it", f.Path)
		}
	}
	for path := range kinds {
		t.Errorf("testdata/fields.tsv lists %s, which is no field of a job", path)
	}
}

func TestNetworksThatNoNodeMakesAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		network api.NetworkResource
		driver  string
		want    string
	}{
		{api.NetworkResource{Mode: "bridge", Hostname: "box", DNS: &api.DNSConfig{}}, "exec", ""},
		{api.NetworkResource{Mode: "none"}, "raw_exec", ""},
		{api.NetworkResource{Mode: "host"}, "docker", ""},
		{api.NetworkResource{Mode: "none", Hostname: "box"}, "exec", `group "g": network: hostname without mode bridge or cni/<name>: not in this version`},
		{api.NetworkResource{DNS: &api.DNSConfig{}}, "exec", `group "g": network: dns without mode bridge or cni/<name>: not in this version`},
		{api.NetworkResource{Mode: "cni/x", Hostname: "box", DNS: &api.DNSConfig{}, CNI: &api.CNIConfig{Args: map[string]string{"k": "v"}}}, "exec", ""},
		{api.NetworkResource{Mode: "bridge", CNI: &api.CNIConfig{}}, "exec", `group "g": network: cni without mode cni/<name>: not in this version`},
		{api.NetworkResource{Mode: "cni/x", CNI: &api.CNIConfig{Args: map[string]string{"k": "${node.datacenter}"}}}, "exec", `group "g": network: cni: interpolation in argument "k": not in this version`},
		{api.NetworkResource{Mode: "bridge"}, "docker", ""},
		{api.NetworkResource{Mode: "cni/x"}, "docker", ""},
	} {
		j := &api.Job{TaskGroups: []*api.TaskGroup{{Name: "g", Networks: []*api.NetworkResource{&c.network}, Tasks: []*api.Task{{Name: "t", Driver: c.driver}}}}}
		got := ""
		for _, err := range rules.Later(j) {
			got += err.Error()
		}
		if got != c.want {
			t.Errorf("%+v of %s: %q, want %q", c.network, c.driver, got, c.want)
		}
	}
	j := &api.Job{TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{{Name: "t", Resources: &api.Resources{
		Networks: []*api.NetworkResource{{Mode: "bridge", Hostname: "box"}},
	}}}}}}
	if errs := rules.Later(j); len(errs) != 1 {
		t.Errorf("the network of a task with a host name: %v", errs)
	}
}
