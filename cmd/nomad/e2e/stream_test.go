package e2e

import (
	"errors"
	"fmt"
	"io"
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
