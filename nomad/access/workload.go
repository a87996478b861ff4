package access

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// workload finds the caller of a signed identity. The allocation is looked up for each call: the identity of one that has
// ended is refused at once.
func (g *Gate) workload(token string) (*Caller, error) {
	if g.Identities == nil {
		return nil, ErrDenied
	}
	c := g.workloads.get(g.State, token, func(tx *state.Txn) *Caller {
		claims, _, err := g.Identities.Verify(token, identity.AudienceWorkload)
		if err != nil {
			return nil
		}
		if a := allocOf(g.State.Read(), claims); a != nil {
			return g.ofWorkload(tx, claims, a.TaskGroup)
		}
		return nil
	})
	if c == nil || c.Token.Expired(g.Now()) || allocOf(g.State.Read(), c.Identity) == nil {
		return nil, ErrDenied
	}
	return c, nil
}

// allocOf returns the allocation of an identity, or nil when it has ended.
func allocOf(tx *state.Txn, c *identity.Claims) *api.Allocation {
	a := tx.Alloc(c.AllocationID)
	if a == nil || a.ClientTerminal() || a.Namespace != c.Namespace || a.Job == nil || identity.JobOf(a.Job) != c.JobID {
		return nil
	}
	return a
}

// ofWorkload compiles the rights of a workload: the policies that are attached to its job, group or task, and the variables
// of these.
func (g *Gate) ofWorkload(tx *state.Txn, c *identity.Claims, group string) *Caller {
	t := &api.ACLToken{AccessorID: "identity " + c.AllocationID, Name: c.Subject, Type: api.ACLClientToken}
	if end := c.Expires(); !end.IsZero() {
		t.ExpirationTime = &end
	}
	for p := range tx.ACLPoliciesOfJob(c.Namespace, c.JobID) {
		if j := p.JobACL; (j.Group == "" || j.Group == group) && (j.Task == "" || j.Task == c.Task) {
			t.Policies = append(t.Policies, p.Name)
		}
	}
	paths := []string{"nomad/jobs", "nomad/jobs/" + c.JobID, "nomad/jobs/" + c.JobID + "/" + group}
	if c.Task != "" {
		paths = append(paths, "nomad/jobs/"+c.JobID+"/"+group+"/"+c.Task)
	}
	return &Caller{Token: t, Identity: c, Rights: compile(tx, t.Policies, g.cache.parse).WithReadable(c.Namespace, paths...)}
}
