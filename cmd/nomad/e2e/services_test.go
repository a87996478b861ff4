package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// TestServicesFollowTheirJob: a version whose check fails is rolled back, the instances stay registered meanwhile, and end with
// the job.
func TestServicesFollowTheirJob(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := func(l net.Listener) string { return fmt.Sprint(l.Addr().(*net.TCPAddr).Port) }
	refusing := port(closed)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	version := func(port, tag string) *api.Job {
		j := versioned("web", fmt.Sprintf(sleeps, tag), 2, rollout(func(u *api.UpdateStrategy) {
			healthy, progress, yes, checks := 5*time.Second, 6*time.Second, true, "checks"
			u.HealthyDeadline, u.ProgressDeadline, u.AutoRevert, u.HealthCheck = &healthy, &progress, &yes, &checks
		}))
		j.TaskGroups[0].Services = []*api.Service{{
			Name: "web", Provider: "nomad", PortLabel: port, Address: "127.0.0.1", Tags: []string{tag},
			Checks: []api.ServiceCheck{{Type: "tcp", Interval: time.Second, Timeout: time.Second}},
		}}
		return j
	}
	instances := func() []*api.ServiceRegistration {
		t.Helper()
		all, _, err := a.API.Services().Get("web", nil)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	a.Register(version(port(open), "one"))
	deployed(t, a, "web", 0, "successful")
	for _, i := range instances() {
		if i.Address != "127.0.0.1" || fmt.Sprint(i.Port) != port(open) || len(i.Tags) != 1 || i.Tags[0] != "one" {
			t.Errorf("instance %+v", i)
		}
	}
	if n := len(instances()); n != 2 {
		t.Errorf("%d instances, want 2", n)
	}

	a.Register(version(refusing, "two"))
	if d := deployed(t, a, "web", 2, "successful"); d.TaskGroups["g"].HealthyAllocs != 2 {
		t.Errorf("the deployment that goes back: %+v", d.TaskGroups["g"])
	}
	a.Until(10*time.Second, "only the first version to be registered", func() error {
		all := instances()
		for _, i := range all {
			if i.Tags[0] != "one" {
				return fmt.Errorf("instance of version %v", i.Tags)
			}
		}
		if len(all) != 2 {
			return fmt.Errorf("%d instances", len(all))
		}
		return nil
	})
	if _, _, err := a.API.Jobs().Deregister("web", true, nil); err != nil {
		t.Fatal(err)
	}
	a.Until(20*time.Second, "nothing to be registered", func() error {
		if n := len(instances()); n > 0 {
			return fmt.Errorf("%d instances", n)
		}
		return nil
	})
}

// TestTemplateFollowsAMovedService: a task finds the service of another job in a template, also after that job has moved to
// another node.
func TestTemplateFollowsAMovedService(t *testing.T) {
	t.Parallel()
	server, nodes := nodesLab(t)
	left, right := nodes[0].NodeID(server), nodes[1].NodeID(server)
	back, front := kit.ShellJob("back", quiet), kit.ShellJob("front", quiet)
	back.TaskGroups[0].Services = []*api.Service{{Name: "back", Provider: "nomad", PortLabel: "8080"}}
	noop, text, out := "noop", `{{ range nomadService "back" }}{{ .Address }}:{{ .Port }}{{ end }}`, "local/out"
	front.TaskGroups[0].Tasks[0].Templates = []*api.Template{{EmbeddedTmpl: &text, DestPath: &out, ChangeMode: &noop}}
	front.Constraints = []*api.Constraint{api.NewConstraint("${node.unique.id}", "=", right)}
	if text, code := server.Run("node", "eligibility", "-disable", right); code != 0 {
		t.Fatal(text)
	}
	server.Register(back)
	server.Running("back", 1)
	if text, code := server.Run("node", "eligibility", "-enable", right); code != 0 {
		t.Fatal(text)
	}
	server.Register(front)
	stub := server.Running("front", 1)
	renders := func(node string) {
		t.Helper()
		info, _, err := server.API.Nodes().Info(node, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := info.Attributes["unique.network.ip-address"] + ":8080"
		took := server.Until(30*time.Second, "the template to show "+want, func() error {
			got, code := server.Run("alloc", "fs", stub.ID, "main/local/out")
			if code != 0 || got != want {
				return fmt.Errorf("it is %q", got)
			}
			return nil
		})
		t.Logf("rendered after %v", took)
	}
	renders(left)
	if text, code := server.Run("node", "drain", "-enable", "-yes", "-deadline", "20s", left); code != 0 {
		t.Fatal(text)
	}
	renders(right)
	if now := server.Running("front", 1); now.ID != stub.ID || now.TaskStates[front.TaskGroups[0].Tasks[0].Name].Restarts != 0 {
		t.Errorf("the task that reads the template was restarted or replaced: %+v", now)
	}
}

// TestJobAsPeopleWriteIt runs a job with an artifact, templates, a variable, a service and a CSI volume.
func TestJobAsPeopleWriteIt(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "echo $GREETING $(cat local/peer) > data/result && cp data/result local/result; exec sleep 3600\n")
	}))
	defer web.Close()
	a.Plugin("hp")
	a.CreateVolume("hp", "data")
	j := kit.WithVolume(kit.ShellJob("app", "exec sh local/app.sh"), "data")
	group := j.TaskGroups[0]
	task, noop, yes := group.Tasks[0], "noop", true
	source, file, mode := web.URL+"/app.sh", "local/app.sh", "file"
	task.Artifacts = []*api.TaskArtifact{{GetterSource: &source, RelativeDest: &file, GetterMode: &mode}}
	peer, peerFile := `{{ range nomadService "db" }}{{ .Port }}{{ end }}`, "local/peer"
	greeting, envFile := "GREETING={{ with nomadVar \"nomad/jobs/app\" }}{{ .greeting }}{{ end }}\n", "secrets/app.env"
	task.Templates = []*api.Template{
		{EmbeddedTmpl: &peer, DestPath: &peerFile, ChangeMode: &noop},
		{EmbeddedTmpl: &greeting, DestPath: &envFile, ChangeMode: &noop, Envvars: &yes},
	}
	group.Services = []*api.Service{{Name: "app", Provider: "nomad", PortLabel: "80"}}
	a.Register(j)
	a.Until(30*time.Second, "the task to wait for its variable", func() error {
		all, _, err := a.API.Jobs().Allocations("app", true, nil)
		if err != nil {
			return err
		}
		var seen []string
		for _, s := range all {
			if state := s.TaskStates[task.Name]; state != nil {
				for _, e := range state.Events {
					seen = append(seen, s.ClientStatus+": "+e.DisplayMessage)
				}
			}
		}
		if !strings.Contains(strings.Join(seen, "\n"), "nomad/jobs/app") {
			return fmt.Errorf("no event names it: %q", seen)
		}
		return nil
	})
	db := kit.ShellJob("db", quiet)
	db.TaskGroups[0].Services = []*api.Service{{Name: "db", Provider: "nomad", PortLabel: "5432"}}
	a.Register(db)
	a.Running("db", 1)
	if _, _, err := a.API.Variables().Create(&api.Variable{Path: "nomad/jobs/app", Items: map[string]string{"greeting": "hello"}}, nil); err != nil {
		t.Fatal(err)
	}
	stub := a.Running("app", 1)
	a.Until(20*time.Second, "the volume to have the result", func() error {
		if got, code := a.Run("alloc", "fs", stub.ID, task.Name+"/local/result"); code != 0 || got != "hello 5432\n" {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
	if all, _, err := a.API.Services().Get("app", nil); err != nil || len(all) != 1 {
		t.Errorf("instances of the service: %v, %v", all, err)
	}
	a.Stop("app", true)
	a.Free("data")
}
