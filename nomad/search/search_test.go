package search_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/search"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// open makes a service with a few objects of all kinds.
func open(t *testing.T, limits search.Limits) *search.Service {
	t.Helper()
	s := state.New()
	tx := s.Write(1, time.Unix(1000, 0))
	for i := range 30 {
		id := fmt.Sprintf("worker-%02d", i)
		tx.PutJob(&api.Job{ID: id, Name: id, Namespace: "default", TaskGroups: []*api.TaskGroup{{Name: "grp"}}})
	}
	for _, ns := range []string{"default", "other"} {
		job := &api.Job{ID: "shop", Name: "shop", Namespace: ns, TaskGroups: []*api.TaskGroup{{
			Name: "front", Services: []*api.Service{{Name: "Web-public"}},
			Tasks: []*api.Task{{
				Name: "server", Services: []*api.Service{{Name: "web-admin"}},
				Config: map[string]any{"image": "registry/Nginx:1", "command": "/bin/nginx", "class": "org.Main"},
			}},
		}}}
		tx.PutJob(job)
		tx.PutAlloc(&api.Allocation{ID: "a-" + ns, Name: "shop.front[0]", Namespace: ns, JobID: "shop", Job: job, NodeID: "n1"})
		tx.PutVolume(&api.Volume{VolumeSpec: api.VolumeSpec{ID: "data[0]", Namespace: ns, PluginID: "hostpath"}})
	}
	tx.PutNode(&api.Node{ID: "n1", Name: "rack-shop", CSINodePlugins: map[string]*api.CSIInfo{"hostpath": {PluginID: "hostpath", Healthy: true}}})
	tx.PutHostVolume(&api.HostVolume{ID: "hv1", Name: "postgres-data", Namespace: "default", NodeID: "n1"})
	tx.PutEval(&api.Evaluation{ID: "shop0000-eval", Namespace: "default", JobID: "shop"})
	tx.Commit()
	return search.New(search.Config{State: s, Limits: limits})
}

// found returns the matches of a context as texts.
func found(t *testing.T, s *search.Service, ns, context, text string) ([]string, bool) {
	t.Helper()
	out, err := s.Fuzzy(t.Context(), &api.FuzzySearchRequest{Text: text, Context: context, QueryOptions: api.QueryOptions{Namespace: ns}})
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, m := range out.Matches[context] {
		rows = append(rows, strings.Join(append([]string{m.ID}, m.Scope...), " "))
	}
	return rows, out.Truncations[context]
}

func TestObjectsAreFoundByPartsOfTheirNames(t *testing.T) {
	s := open(t, search.Limits{})
	for _, x := range []struct {
		ns, context, text string
		want              []string
	}{
		{"default", "jobs", "HOP", []string{"shop default shop"}},
		{"*", "jobs", "shop", []string{"shop default shop", "shop other shop"}},
		{"default", "groups", "ron", []string{"front default shop"}},
		{"default", "tasks", "serv", []string{"server default shop front"}},
		{"default", "images", "nginx", []string{"registry/Nginx:1 default shop front server"}},
		{"default", "commands", "nginx", []string{"/bin/nginx default shop front server"}},
		{"default", "classes", "main", []string{"org.Main default shop front server"}},
		{"default", "services", "web", []string{"web-admin default shop front server", "Web-public default shop front"}},
		{"default", "allocs", "front", []string{"shop.front[0] default a-default"}},
		{"default", "nodes", "shop", []string{"rack-shop n1"}},
		{"default", "volumes", "ata", []string{"data[0] default data[0]"}},
		{"default", "host_volumes", "gres", []string{"postgres-data default hv1"}},
		{"other", "host_volumes", "gres", nil},
		{"default", "plugins", "host", []string{"hostpath"}},
		{"default", "evals", "shop", []string{"shop0000-eval default shop0000-eval"}},
		{"default", "evals", "eval", nil},
	} {
		if got, _ := found(t, s, x.ns, x.context, x.text); !slices.Equal(got, x.want) {
			t.Errorf("%s with %q: %q, want %q", x.context, x.text, got, x.want)
		}
	}
}

func TestTheBestMatchesComeFirstAndAreCounted(t *testing.T) {
	s := open(t, search.Limits{Shown: 3})
	got, more := found(t, s, "default", "jobs", "er-")
	if want := []string{"worker-00 default worker-00", "worker-01 default worker-01", "worker-02 default worker-02"}; !slices.Equal(got, want) || !more {
		t.Errorf("%q, more %v", got, more)
	}
	if _, more := found(t, s, "default", "jobs", "shop"); more {
		t.Error("one match is reported as truncated")
	}
}

func TestSearchesThatAreRefused(t *testing.T) {
	for text, limits := range map[string]search.Limits{"must be at least 2 characters": {}, "not enabled": {Off: true}} {
		_, err := open(t, limits).Fuzzy(context.Background(), &api.FuzzySearchRequest{Text: "x"})
		if fault.Of(err) != fault.Invalid || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
	if _, err := open(t, search.Limits{}).Fuzzy(t.Context(), &api.FuzzySearchRequest{Text: "xx", Context: "moons"}); fault.Of(err) != fault.Invalid {
		t.Errorf("an unknown context: %v", err)
	}
}
