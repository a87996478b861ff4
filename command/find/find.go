package find

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/rows"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// kind describes how objects of a kind are named, identified and listed.
type kind[T any] struct {
	name  string
	id    func(*T) string
	table func([]*T) string
}

func (k kind[T]) many() string {
	if stem, ok := strings.CutSuffix(k.name, "y"); ok {
		return stem + "ies"
	}
	return k.name + "s"
}

// one picks the object that was meant.
func (k kind[T]) one(typed string, found []*T) (*T, error) {
	var exact, like []*T
	for _, o := range found {
		switch id := k.id(o); {
		case id == typed:
			exact = append(exact, o)
		case strings.HasPrefix(id, typed):
			like = append(like, o)
		}
	}
	if len(exact) == 0 {
		exact = like
	}
	switch len(exact) {
	case 0:
		return nil, fault.New(fault.NotFound, "No %s with prefix or ID %q found", k.name, typed)
	case 1:
		return exact[0], nil
	}
	return nil, fault.New(fault.Invalid, "Prefix %q matched multiple %s\n\n%s", typed, k.many(), strings.TrimRight(k.table(exact), "\n"))
}

// ListOr lists without an argument, or else shows the object that the argument names.
func ListOr[T any](list func(context.Context, *session.Session) error, find func(context.Context, *session.Session, string) (T, error),
	show func(context.Context, *session.Session, T) error,
) func(context.Context, *session.Session) error {
	return func(ctx context.Context, s *session.Session) error {
		if len(s.Args) == 0 {
			return list(ctx, s)
		}
		found, err := find(ctx, s, s.Arg(0))
		if err != nil {
			return err
		}
		return show(ctx, s, found)
	}
}

func table[T any](head []string, found []*T, row func(*T) []string) string {
	all := [][]string{head}
	for _, o := range found {
		all = append(all, row(o))
	}
	return view.Table(all...)
}

// Job finds a job in the session's namespace, or in all with "*".
func Job(ctx context.Context, s *session.Session, id string) (*api.JobStub, error) {
	found, _, err := s.Jobs(ctx, rest.Query{Prefix: id})
	if err != nil {
		return nil, session.Failed("querying jobs", err)
	}
	return kind[api.JobStub]{"job", func(j *api.JobStub) string { return j.ID }, JobTable}.one(id, found)
}

// JobTable lists jobs.
func JobTable(jobs []*api.JobStub) string {
	return table([]string{"ID", "Namespace", "Type", "Priority", "Status"}, jobs, func(j *api.JobStub) []string {
		return []string{j.ID, j.Namespace, j.Type, fmt.Sprint(j.Priority), JobStatus(j.Status, j.Stop)}
	})
}

// JobStatus is a job's status, with a note when it was stopped.
func JobStatus(status string, stopped bool) string {
	if stopped {
		return status + " (stopped)"
	}
	return status
}

// Node finds a node.
func Node(ctx context.Context, s *session.Session, id string) (*api.NodeStub, error) {
	found, _, err := s.Nodes(ctx, rest.Query{Prefix: id})
	if err != nil {
		return nil, session.Failed("querying nodes", err)
	}
	n, err := kind[api.NodeStub]{"node", func(n *api.NodeStub) string { return n.ID }, func(n []*api.NodeStub) string {
		return table([]string{"ID", "DC", "Name", "Class", "Eligibility", "Status"}, n, func(n *api.NodeStub) []string {
			return []string{s.ID(n.ID), n.Datacenter, n.Name, view.OrNone(n.NodeClass), n.SchedulingEligibility, n.Status}
		})
	}}.one(id, found)
	if errors.Is(err, fault.NotFound) {
		return nil, named(ctx, s, id, err)
	}
	return n, err
}

// named adds to an error the nodes that have the name which was given for an id: tables show names, and several nodes may
// have one.
func named(ctx context.Context, s *session.Session, name string, err error) error {
	all, _, listErr := s.Nodes(ctx, rest.Query{})
	if listErr != nil {
		return err
	}
	var ids []string
	for _, n := range all {
		if n.Name == name {
			ids = append(ids, n.ID)
		}
	}
	if len(ids) == 0 {
		return err
	}
	return fmt.Errorf("%w; it is the name of node %s: give the ID", err, strings.Join(ids, ", "))
}

// LocalNode is the id of the asked agent's own node.
func LocalNode(ctx context.Context, s *session.Session) (string, error) {
	self, err := s.Self(ctx)
	if err != nil {
		return "", session.Failed("querying agent", err)
	}
	id := self.Stats["client"]["node_id"]
	if id == "" {
		return "", fault.New(fault.Invalid, "the contacted agent does not run a client")
	}
	return id, nil
}

// Alloc finds an allocation in the session's namespace, or in all when it is not there.
func Alloc(ctx context.Context, s *session.Session, id string) (*api.AllocStub, error) {
	k := kind[api.AllocStub]{"allocation", func(a *api.AllocStub) string { return a.ID }, func(a []*api.AllocStub) string {
		return rows.Allocs(a, true, time.Now())
	}}
	found, _, err := s.Allocs(ctx, rest.Query{Prefix: id})
	if err != nil {
		return nil, session.Failed("querying allocations", err)
	}
	return k.one(id, found)
}

// Deployment finds a deployment.
func Deployment(ctx context.Context, s *session.Session, id string) (*api.Deployment, error) {
	found, _, err := s.Deployments(ctx, rest.Query{Prefix: id})
	if err != nil {
		return nil, session.Failed("querying deployments", err)
	}
	return kind[api.Deployment]{"deployment", func(d *api.Deployment) string { return d.ID }, func(d []*api.Deployment) string {
		return rows.Deployments(d, true)
	}}.one(id, found)
}

// RootKey finds a root key in a list of all.
func RootKey(keys []*api.RootKeyMeta, id string, table func(keys []*api.RootKeyMeta, verbose bool) string) (*api.RootKeyMeta, error) {
	return kind[api.RootKeyMeta]{"root key", func(k *api.RootKeyMeta) string { return k.KeyID }, func(k []*api.RootKeyMeta) string {
		return table(k, true)
	}}.one(id, keys)
}

// Policy finds a scaling policy.
func Policy(ctx context.Context, s *session.Session, id string) (*api.ScalingPolicy, error) {
	found, _, err := s.ScalingPolicies(ctx, "", "", rest.Query{Prefix: id})
	if err != nil {
		return nil, session.Failed("querying scaling policies", err)
	}
	return kind[api.ScalingPolicy]{"scaling policy", func(p *api.ScalingPolicy) string { return p.ID }, func(p []*api.ScalingPolicy) string {
		return PolicyTable(p, true)
	}}.one(id, found)
}

// PolicyTable lists scaling policies.
func PolicyTable(policies []*api.ScalingPolicy, long bool) string {
	return table([]string{"ID", "Enabled", "Type", "Target"}, policies, func(p *api.ScalingPolicy) []string {
		return []string{view.ID(p.ID, long), fmt.Sprint(p.Enabled), p.Type, Target(p.Target)}
	})
}

// Target names what a scaling policy scales, from the widest to the narrowest.
func Target(t map[string]string) string {
	var parts []string
	for _, k := range []string{"Namespace", "Job", "Group", "Task"} {
		if t[k] != "" {
			parts = append(parts, k+":"+t[k])
		}
	}
	return strings.Join(parts, ",")
}

// Eval finds an evaluation.
func Eval(ctx context.Context, s *session.Session, id string) (*api.Evaluation, error) {
	found, _, err := s.Evals(ctx, rest.Query{Prefix: id})
	if err != nil {
		return nil, session.Failed("querying evaluations", err)
	}
	return kind[api.Evaluation]{"evaluation", func(e *api.Evaluation) string { return e.ID }, EvalTable}.one(id, found)
}

// EvalTable lists evaluations by their whole ids.
func EvalTable(evals []*api.Evaluation) string {
	return table([]string{"ID", "Priority", "Triggered By", "Job ID", "Status", "Placement Failures"}, evals, func(e *api.Evaluation) []string {
		return []string{e.ID, fmt.Sprint(e.Priority), e.TriggeredBy, e.JobID, e.Status, PlacementFailures(e)}
	})
}

// PlacementFailures reports whether an evaluation has failed placements.
func PlacementFailures(e *api.Evaluation) string {
	if e.Status == api.EvalStatusBlocked {
		return "N/A - In Progress"
	}
	return fmt.Sprint(len(e.FailedTGAllocs) > 0)
}

// Namespace finds a namespace.
func Namespace(ctx context.Context, s *session.Session, name string) (*api.Namespace, error) {
	found, _, err := s.Namespaces(ctx, rest.Query{Prefix: name})
	if err != nil {
		return nil, session.Failed("retrieving namespaces", err)
	}
	return kind[api.Namespace]{"namespace", func(n *api.Namespace) string { return n.Name }, NamespaceTable}.one(name, found)
}

// NamespaceTable lists namespaces.
func NamespaceTable(found []*api.Namespace) string {
	return table([]string{"Name", "Description"}, found, func(n *api.Namespace) []string {
		return []string{n.Name, view.OrNone(n.Description)}
	})
}

// Quota finds a quota.
func Quota(ctx context.Context, s *session.Session, name string) (*api.QuotaSpec, error) {
	found, err := s.Quotas().List(ctx, rest.Query{Prefix: name})
	if err != nil {
		return nil, session.Failed("retrieving quotas", err)
	}
	return kind[api.QuotaSpec]{"quota", func(q *api.QuotaSpec) string { return q.Name }, QuotaTable}.one(name, found)
}

// QuotaTable lists quotas.
func QuotaTable(found []*api.QuotaSpec) string {
	return table([]string{"Name", "Description"}, found, func(q *api.QuotaSpec) []string {
		return []string{q.Name, view.OrNone(q.Description)}
	})
}
