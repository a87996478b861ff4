package nomad_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// TestEventsFollowTheRightsOfTheToken: a token subscribes to what it may read, sees the objects that it may see, and its
// subscription ends with it.
func TestEventsFollowTheRightsOfTheToken(t *testing.T) {
	t.Parallel()
	s, management := guarded(t)
	token := func(name, rules string) *api.ACLToken {
		if _, err := wire.ACLPolicyUpsert.Call(t.Context(), s.Caller(), &api.ACLPolicyUpsertRequest{
			Policies: []*api.ACLPolicy{{Name: name, Rules: rules}}, WriteRequest: api.WriteRequest{SecretID: management},
		}); err != nil {
			t.Fatal(err)
		}
		out, err := wire.ACLTokenUpsert.Call(t.Context(), s.Caller(), &api.ACLTokenUpsertRequest{
			Token:        &api.ACLToken{Name: name, Type: api.ACLClientToken, Policies: []string{name}},
			WriteRequest: api.WriteRequest{SecretID: management},
		})
		if err != nil {
			t.Fatal(err)
		}
		return out.Token
	}
	reader := token("reader", `namespace "default" { policy = "read" }`)
	subscribe := func(secret, namespace string, topics ...string) (*api.EventsRequest, error) {
		r := &api.EventsRequest{Topics: topics, QueryOptions: api.QueryOptions{Namespace: namespace, AuthToken: secret, MaxWait: 30 * time.Second}}
		out, err := wire.EventRead.Call(t.Context(), s.Caller(), r)
		if err == nil {
			r.Cursor = out.Cursor
		}
		return r, err
	}
	for _, c := range []struct {
		topic, namespace string
		ok               bool
	}{
		{"Job", "default", true},
		{"Allocation", "*", true},
		{"CSIVolume", "default", true},
		{"VolumeClaim", "default", true},
		{"Service", "", true},
		{"Job", "other", false},
		{"Node", "default", false},
		{"NodePool", "default", false},
		{"ACLToken", "default", false},
		{"*", "default", false},
		{"Operator", "default", false},
	} {
		if _, err := subscribe(reader.SecretID, c.namespace, c.topic); c.ok != (err == nil) || err != nil && !errors.Is(err, fault.Denied) {
			t.Errorf("%+v: %v", c, err)
		}
		if _, err := subscribe(management, c.namespace, c.topic); err != nil {
			t.Errorf("management, %+v: %v", c, err)
		}
	}
	if _, err := wire.NamespaceUpsert.Call(t.Context(), s.Caller(), &api.NamespaceUpsertRequest{
		Spec: &api.Namespace{Name: "other"}, WriteRequest: api.WriteRequest{SecretID: management},
	}); err != nil {
		t.Fatal(err)
	}
	r, err := subscribe(reader.SecretID, "*", "Job")
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{"other", "default"} {
		j := job("job-of-" + ns)
		j.Namespace = ns
		if _, err := wire.JobRegister.Call(t.Context(), s.Caller(), &api.JobRegisterRequest{Job: j, WriteRequest: api.WriteRequest{Namespace: ns, SecretID: management}}); err != nil {
			t.Fatal(err)
		}
	}
	text := ""
	for !strings.Contains(text, "job-of-default") {
		out, err := wire.EventRead.Call(t.Context(), s.Caller(), r)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range out.Data {
			text += string(part)
		}
		r.Cursor = out.Cursor
	}
	if strings.Contains(text, "job-of-other") {
		t.Errorf("a job of another namespace: %s", text)
	}
	waiting := make(chan error, 1)
	go func() {
		for {
			out, err := wire.EventRead.Call(t.Context(), s.Caller(), r)
			if err != nil {
				waiting <- err
				return
			}
			r.Cursor = out.Cursor
		}
	}()
	if _, err := wire.ACLTokenDelete.Call(t.Context(), s.Caller(), &api.ACLTokenDeleteRequest{
		AccessorIDs: []string{reader.AccessorID}, WriteRequest: api.WriteRequest{SecretID: management},
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; !errors.Is(err, fault.Denied) {
		t.Errorf("after its token was deleted: %v", err)
	}
}
