package rest_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
)

func TestNullsInAnswersAreErrors(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	calls := map[string]func(*rest.Client) (any, error){
		"list":   func(c *rest.Client) (any, error) { v, _, err := c.Jobs(ctx, rest.Query{}); return v, err },
		"object": func(c *rest.Client) (any, error) { return c.Self(ctx) },
		"alloc":  func(c *rest.Client) (any, error) { v, _, err := c.Alloc(ctx, "a", rest.Query{}); return v, err },
		"write":  func(c *rest.Client) (any, error) { return c.FailDeployment(ctx, "d") },
		"raft":   func(c *rest.Client) (any, error) { return c.RaftConfiguration(ctx, false) },
	}
	for _, x := range []struct {
		call, body, want string
	}{
		{"list", `[null]`, "[0]"},
		{"list", `[{"ID":"a"}, null]`, "[1]"},
		{"list", ` null`, ""},
		{"list", `[]`, ""},
		{"list", `{}`, "cannot unmarshal"},
		{"object", `null`, "it is null"},
		{"object", ``, "EOF"},
		{"write", "null\n", "it is null"},
		{"raft", `{"Servers":[null]}`, ".Servers[0]"},
		{"alloc", `{"Job":{"TaskGroups":[{"Tasks":[null]}]}}`, ".Job.TaskGroups[0].Tasks[0]"},
		{"alloc", `{"TaskStates":{"t":null}}`, `.TaskStates["t"]`},
		{"alloc", `{"TaskStates":null,"Job":null}`, ""},
	} {
		c, _ := echo(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, x.body) })
		_, err := calls[x.call](c)
		if x.want == "" && err != nil || x.want != "" && (!errors.Is(err, fault.Internal) || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s %s: error %v, want %q", x.call, x.body, err, x.want)
		}
	}
}

func TestJobWithoutDeployment(t *testing.T) {
	t.Parallel()
	c, _ := echo(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "null\n") })
	if d, err := c.JobDeployment(t.Context(), "j"); d != nil || err != nil {
		t.Errorf("deployment %v, error %v", d, err)
	}
}
