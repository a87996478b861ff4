package e2e

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// TestTheEventStreamOfTheSDK: the official client reads the life of a job from the stream, its objects decode, and the stream
// ends with the agent.
func TestTheEventStreamOfTheSDK(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	stream, err := a.API.EventStream().Stream(t.Context(), map[api.Topic][]string{api.TopicAll: {"*"}}, 1, &api.QueryOptions{Namespace: "*"})
	if err != nil {
		t.Fatal(err)
	}
	j := versioned("web", fmt.Sprintf(sleeps, "one"), 1, rollout(func(*api.UpdateStrategy) {}))
	j.TaskGroups[0].Services = []*api.Service{{Name: "web", Provider: "nomad", PortLabel: "80", Address: "127.0.0.1"}}
	a.Register(j)
	missing := map[string]bool{
		"Node NodeRegistration": true, "Job JobRegistered": true, "Evaluation JobRegistered": true, "Allocation PlanResult": true,
		"Deployment PlanResult": true, "Service ServiceRegistration": true, "running allocation": true,
	}
	last := uint64(0)
	for len(missing) > 0 {
		var line *api.Events
		select {
		case line = <-stream:
		case <-time.After(30 * time.Second):
			t.Fatalf("still missing: %v", missing)
		}
		if line.Err != nil {
			t.Fatalf("%v; missing: %v", line.Err, missing)
		}
		if line.Index <= last {
			t.Fatalf("index %d after %d", line.Index, last)
		}
		last = line.Index
		for _, e := range line.Events {
			delete(missing, string(e.Topic)+" "+e.Type)
			id, err := decoded(&e)
			if err != nil || id != e.Key {
				t.Errorf("%s %s has the object %q: %v", e.Topic, e.Key, id, err)
			}
			if got, err := e.Allocation(); err == nil && got != nil && got.ClientStatus == "running" && len(got.TaskStates) > 0 {
				delete(missing, "running allocation")
			}
		}
	}
	if out, code := a.Run("event", "stream", "-topic", "Foo"); code != 1 || !strings.Contains(out, `unknown topic "Foo"`) {
		t.Errorf("an unknown topic: %d %s", code, out)
	}
	a.Terminate(30 * time.Second)
	for line := range stream {
		if line.Err != nil && !errors.Is(line.Err, io.EOF) {
			t.Logf("the stream ended: %v", line.Err)
		}
	}
}

// TestTheEventStreamSurvivesLeaders: a stream of a client agent continues when the leader is killed, without a gap, and the
// agents serve their metrics meanwhile.
func TestTheEventStreamSurvivesLeaders(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	old := c.leader(nil)
	stream, err := c.node.API.EventStream().Stream(t.Context(), map[api.Topic][]string{api.TopicJob: {"*"}}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	write := func(name string) {
		want[name] = true
		c.write(name)
	}
	write("before")
	old.Kill9()
	scraped := 0
	for began := time.Now(); time.Since(began) < 2*time.Second; scraped++ { // no leader, an election, a leader
		for _, h := range append(slices.Clone(c.servers), c.node) {
			if h == old {
				continue
			}
			if r, err := h.API.Raw().Response("/v1/metrics?format=prometheus", &api.QueryOptions{AllowStale: true}); err != nil {
				if !strings.Contains(err.Error(), "Prometheus is not enabled") {
					t.Errorf("metrics of %s: %v", h.Name, err)
				}
			} else {
				_ = r.Close()
			}
			if r, err := h.API.Raw().Response("/v1/metrics", nil); err != nil {
				t.Errorf("metrics of %s: %v", h.Name, err)
			} else {
				_ = r.Close()
			}
		}
	}
	write("after")
	last := uint64(0)
	for limit := time.After(30 * time.Second); len(want) > 0; {
		select {
		case line, open := <-stream:
			if !open || line.Err != nil {
				t.Fatalf("the stream ended: %+v; missing: %v", line, want)
			}
			if line.Index < last {
				t.Errorf("index %d after %d", line.Index, last)
			}
			last = max(last, line.Index)
			for _, e := range line.Events {
				delete(want, e.Key)
			}
		case <-limit:
			t.Fatalf("missing: %v", want)
		}
	}
	t.Logf("%d rounds of scrapes", scraped)
}

// decoded returns the id of the object of an event, as the client decodes it.
func decoded(e *api.Event) (string, error) {
	switch e.Topic {
	case api.TopicJob:
		j, err := e.Job()
		if err != nil {
			return "", err
		}
		return *j.ID, nil
	case api.TopicEvaluation:
		o, err := e.Evaluation()
		if err != nil {
			return "", err
		}
		return o.ID, nil
	case api.TopicAllocation:
		o, err := e.Allocation()
		if err != nil {
			return "", err
		}
		return o.ID, nil
	case api.TopicDeployment:
		o, err := e.Deployment()
		if err != nil {
			return "", err
		}
		return o.ID, nil
	case api.TopicNode:
		o, err := e.Node()
		if err != nil {
			return "", err
		}
		return o.ID, nil
	case api.TopicService:
		o, err := e.Service()
		if err != nil {
			return "", err
		}
		return o.ID, nil
	}
	return e.Key, nil
}
