package taskenv_test

import (
	"reflect"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/taskenv"
)

func input() taskenv.Input {
	task := &api.Task{
		Name: "t", Meta: map[string]string{"who": "task", "a.b-c": "dots"},
		Env: map[string]string{"GREETING": "hello ${meta.rack}/${NOMAD_ALLOC_INDEX}", "Z_LAST": "${GREETING}!", "PATH": "/own:${PATH}"},
	}
	job := &api.Job{
		ID: "web/dispatch-1", Name: "web", ParentID: "web", Region: "eu", Meta: map[string]string{"who": "job", "level": "job", "wants": "x"},
		TaskGroups: []*api.TaskGroup{{Name: "g", Meta: map[string]string{"level": "group"}, Tasks: []*api.Task{task}}},
	}
	return taskenv.Input{
		Alloc: &api.Allocation{
			ID: "0123456789abcdef", Name: "web.g[3]", JobID: job.ID, Job: job, TaskGroup: "g", Namespace: "default",
			AllocatedResources: &api.AllocatedResources{
				Tasks: map[string]*api.AllocatedTaskResources{
					"t":     {Cpu: api.AllocatedCpuResources{CpuShares: 100}, Memory: api.AllocatedMemoryResources{MemoryMB: 64, MemoryMaxMB: 128}},
					"other": {Networks: []*api.NetworkResource{{IP: "10.0.0.1", DynamicPorts: []api.Port{{Label: "db", Value: 25000}}}}},
				},
				Shared: api.AllocatedSharedResources{Ports: []api.PortMapping{
					{Label: "http", Value: 21000, To: 80, HostIP: "10.0.0.1"}, {Label: "my-port", Value: 22000, HostIP: "::1"},
				}},
			},
		},
		Task: task,
		Node: &api.Node{
			ID: "n1", Name: "node-1", Datacenter: "dc1", NodeClass: "big", NodePool: "default", CgroupParent: "nomad.slice",
			Attributes: map[string]string{"kernel.name": "linux"}, Meta: map[string]string{"rack": "r1"},
		},
		Region: "global",
		Paths:  taskenv.Paths{Alloc: "/a/alloc", Task: "/a/t/local", Secrets: "/a/t/secrets"},
		Host:   map[string]string{"PATH": "/bin", "HOME": "/root", "NOMAD_DC": "not this"},
		Extra:  map[string]string{"CSI_ENDPOINT": "unix:///csi.sock"},
	}
}

func TestVariables(t *testing.T) {
	vars := taskenv.New(input()).Vars()
	for name, want := range map[string]string{
		"NOMAD_ALLOC_ID": "0123456789abcdef", "NOMAD_SHORT_ALLOC_ID": "01234567", "NOMAD_ALLOC_NAME": "web.g[3]", "NOMAD_ALLOC_INDEX": "3",
		"NOMAD_TASK_NAME": "t", "NOMAD_GROUP_NAME": "g", "NOMAD_JOB_ID": "web/dispatch-1", "NOMAD_JOB_NAME": "web", "NOMAD_JOB_PARENT_ID": "web",
		"NOMAD_DC": "dc1", "NOMAD_REGION": "global", "NOMAD_NAMESPACE": "default", "NOMAD_PARENT_CGROUP": "nomad.slice",
		"NOMAD_ALLOC_DIR": "/a/alloc", "NOMAD_TASK_DIR": "/a/t/local", "NOMAD_SECRETS_DIR": "/a/t/secrets",
		"NOMAD_CPU_LIMIT": "100", "NOMAD_MEMORY_LIMIT": "64", "NOMAD_MEMORY_MAX_LIMIT": "128",
		"NOMAD_META_who": "task", "NOMAD_META_WHO": "task", "NOMAD_META_level": "group", "NOMAD_META_wants": "x",
		"NOMAD_META_a_b_c": "dots", "NOMAD_META_A_B_C": "dots",
		"NOMAD_IP_http": "10.0.0.1", "NOMAD_PORT_http": "80", "NOMAD_ADDR_http": "10.0.0.1:21000",
		"NOMAD_HOST_IP_http": "10.0.0.1", "NOMAD_HOST_PORT_http": "21000", "NOMAD_HOST_ADDR_http": "10.0.0.1:21000", "NOMAD_ALLOC_PORT_http": "80",
		"NOMAD_PORT_my_port": "22000", "NOMAD_ADDR_my_port": "[::1]:22000", "NOMAD_HOST_ADDR_my-port": "[::1]:22000",
		"NOMAD_ADDR_other_db": "10.0.0.1:25000",
		"HOME":                "/root", "PATH": "/own:/bin", "CSI_ENDPOINT": "unix:///csi.sock",
		"GREETING": "hello r1/3", "Z_LAST": "hello r1/3!",
	} {
		if got, ok := vars[name]; !ok || got != want {
			t.Errorf("%s = %q (%v), want %q", name, got, ok, want)
		}
	}
	if _, ok := vars["NOMAD_PORT_my-port"]; ok {
		t.Error("label with a dash was not cleaned")
	}
	if _, ok := vars["NOMAD_CPU_CORES"]; ok {
		t.Error("cores without cores")
	}
}

func TestReplace(t *testing.T) {
	e := taskenv.New(input())
	for text, want := range map[string]string{
		"":                                      "",
		"plain $HOME $(x)":                      "plain $HOME $(x)",
		"${NOMAD_TASK_NAME}-${NOMAD_PORT_http}": "t-80",
		"${node.unique.id} ${node.unique.name} ${node.datacenter} ${node.class} ${node.pool} ${node.region}": "n1 node-1 dc1 big default global",
		"${attr.kernel.name}":              "linux",
		"${meta.rack}":                     "r1",
		`${env["HOME"]}:${env["NOTHING"]}`: "/root:",
		"${NOT_KNOWN} ${attr.none} ${":     "${NOT_KNOWN} ${attr.none} ${",
		"${CSI_ENDPOINT}":                  "unix:///csi.sock",
	} {
		if got := e.Replace(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestConfigIsReplacedInDepthAndInputKept(t *testing.T) {
	in := map[string]any{
		"command": "${NOMAD_TASK_DIR}/run", "n": 3, "args": []any{"${meta.rack}", true, map[string]any{"k": "${node.class}"}},
		"list": []string{"${NOMAD_DC}"}, "${NOMAD_DC}": "key", "blocks": []map[string]any{{"m": map[string]string{"a": "${NOMAD_DC}"}}},
	}
	want := map[string]any{
		"command": "/a/t/local/run", "n": 3, "args": []any{"r1", true, map[string]any{"k": "big"}},
		"list": []string{"dc1"}, "dc1": "key", "blocks": []map[string]any{{"m": map[string]string{"a": "dc1"}}},
	}
	if got := taskenv.New(input()).Config(in); !reflect.DeepEqual(got, want) {
		t.Fatalf("got %#v", got)
	}
	if in["command"] != "${NOMAD_TASK_DIR}/run" || in["args"].([]any)[0] != "${meta.rack}" {
		t.Fatal("input was changed")
	}
}

func TestBareInputWorks(t *testing.T) {
	e := taskenv.New(taskenv.Input{Alloc: &api.Allocation{ID: "a"}, Task: &api.Task{Name: "t"}})
	if v := e.Vars(); v["NOMAD_SHORT_ALLOC_ID"] != "a" || v["NOMAD_ALLOC_INDEX"] != "" {
		t.Fatalf("%v", v)
	}
}

func TestSecretsOfTheAgentAreNotInherited(t *testing.T) {
	environ := []string{"HOME=/root", "AZURE_CLIENT_SECRET=x", "GOOGLE_CREDENTIALS=x", "AWS_SECRET_ACCESS_KEY=x", "NOMAD_ADDR=y", "broken", "EMPTY="}
	if got := taskenv.Inherited(environ, nil); !reflect.DeepEqual(got, map[string]string{"HOME": "/root", "EMPTY": ""}) {
		t.Errorf("got %v", got)
	}
	if got := taskenv.Inherited(environ, []string{"HOME"}); got["HOME"] != "" || got["AWS_SECRET_ACCESS_KEY"] != "x" {
		t.Errorf("own list: %v", got)
	}
}
