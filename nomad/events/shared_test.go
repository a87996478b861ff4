package events_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Subscribers at the same place with the same filter and the same rights read the same bytes; those that differ in one of
// them read their own events.
func TestOnlyEqualSubscribersShareWhatTheyRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100)
	r.apply(fsm.KindJobStatus, func(tx *state.Txn) {
		for _, ns := range []string{"default", "other"} {
			tx.PutNamespace(&api.Namespace{Name: ns})
			tx.PutACLPolicy(&api.ACLPolicy{Name: ns, Rules: fmt.Sprintf("namespace %q { policy = \"read\" }", ns)})
			tx.PutACLToken(&api.ACLToken{AccessorID: ns, SecretID: ns, Type: api.ACLClientToken, Policies: []string{ns}})
		}
		tx.PutACLToken(&api.ACLToken{AccessorID: "root", SecretID: "root", Type: api.ACLManagementToken})
	})
	gate := access.New(access.Config{State: r.state, Enabled: true})
	read := func(req *api.EventsRequest) *api.EventsResponse {
		ctx, err := gate.Admit(t.Context(), wire.EventRead.Needs, req)
		if err != nil {
			t.Fatal(err)
		}
		out, err := r.Read(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	all := []struct {
		token, namespace, topic, want string
		req                           *api.EventsRequest
	}{
		{token: "root", namespace: "*", topic: "Evaluation", want: "e0 e1"},
		{token: "root", namespace: "*", topic: "Evaluation", want: "e0 e1"},
		{token: "root", namespace: "other", topic: "Evaluation", want: "e1"},
		{token: "root", namespace: "*", topic: "Evaluation:e0", want: "e0"},
		{token: "default", namespace: "*", topic: "Evaluation", want: "e0"},
		{token: "other", namespace: "*", topic: "Evaluation", want: "e1"},
		{token: "other", namespace: "*", topic: "Evaluation", want: "e1"},
		{token: "default", namespace: "*", topic: "Job", want: ""},
	}
	for i, c := range all {
		all[i].req = &api.EventsRequest{Topics: []string{c.topic}, QueryOptions: api.QueryOptions{Namespace: c.namespace, AuthToken: c.token}}
		all[i].req.Cursor = read(all[i].req).Cursor
		all[i].req.MaxWait = 100 * time.Millisecond
	}
	r.apply(fsm.KindEvalUpdate, func(tx *state.Txn) {
		for i, ns := range []string{"default", "other"} {
			tx.PutEval(&api.Evaluation{ID: fmt.Sprint("e", i), Namespace: ns, JobID: "web", Status: "complete"})
		}
	})
	lines := make([]string, len(all))
	for len(lines[0]) == 0 {
		lines[0] = text(read(all[0].req))
	}
	for i := 1; i < len(all); i++ {
		lines[i] = text(read(all[i].req))
	}
	for i, c := range all {
		for _, id := range []string{"e0", "e1"} {
			if got, want := strings.Contains(lines[i], `"Key":"`+id+`"`), strings.Contains(c.want, id); got != want {
				t.Errorf("%s %s %s reads %s: %v, want %v", c.token, c.namespace, c.topic, id, got, want)
			}
		}
	}
	if lines[0] != lines[1] {
		t.Errorf("equal subscribers read %q and %q", lines[0], lines[1])
	}
}

func text(out *api.EventsResponse) (all string) {
	for _, part := range out.Data {
		all += string(part)
	}
	return all
}
