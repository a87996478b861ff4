package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// dispatches are what a client asked for, by numbers of its own.
type dispatches struct {
	acked   map[string]bool
	unknown int
}

const dispatched = "dispatched"

// dispatch has the agent of the node dispatch a job again and again until ctx ends. The agent has no server: it brings
// each request to one.
func (c *cluster) dispatch(ctx context.Context) (*dispatches, error) {
	j := kit.ShellJob(dispatched, "exit 0")
	j.Type, j.ParameterizedJob = ptr("batch"), &api.ParameterizedJobConfig{Payload: "optional"}
	j.TaskGroups[0].Count = ptr(0)
	d := &dispatches{acked: map[string]bool{}}
	at, err := api.NewClient(&api.Config{Address: fmt.Sprintf("http://%s:4646", c.node.IP), HttpClient: &http.Client{Timeout: 5 * time.Second}})
	if err != nil {
		return nil, err
	}
	if _, _, err := at.Jobs().Register(j, nil); err != nil {
		return nil, err
	}
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("n%dn", n)
		if _, _, err := at.Jobs().Dispatch(dispatched, nil, nil, name, nil); err != nil {
			d.unknown++
		} else {
			d.acked[name] = true
		}
		<-time.After(2 * time.Millisecond)
	}
	return d, nil
}

// checkDispatched fails the test when a dispatch that was answered is not there, or one was done twice.
func (c *cluster) checkDispatched(d *dispatches) {
	c.t.Helper()
	children, _, err := c.servers[0].API.Jobs().PrefixList(dispatched + "/dispatch-")
	if err != nil {
		c.t.Fatal(err)
	}
	seen := map[string][]string{}
	for _, child := range children {
		name, _, _ := strings.Cut(strings.TrimPrefix(child.ID, dispatched+"/dispatch-"), "-")
		seen[name] = append(seen[name], child.ID)
	}
	for name, ids := range seen {
		if slices.Sort(ids); len(ids) > 1 {
			c.t.Errorf("dispatch %s was done %d times: %v", name, len(ids), ids)
		}
		delete(d.acked, name)
	}
	if len(d.acked) > 0 {
		c.t.Errorf("%d dispatches were answered and are not there", len(d.acked))
	}
	if len(seen) == 0 {
		c.t.Error("nothing was dispatched")
	}
	kit.Measured(c.t, fmt.Sprintf("cluster | dispatches through an agent without a server in the same time | %d done, %d errors: none twice %v | none twice", len(seen), d.unknown, !c.t.Failed()))
}
