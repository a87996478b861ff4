package namespaces

import (
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

//go:generate go run -modfile=../../tools/go.mod ../../cmd/nomad/codec.go . commands.go

//msgp:limit arrays:1000000 maps:1000000
//msgp:ignore use

// UpsertNamespace creates or replaces a namespace.
type UpsertNamespace struct {
	Namespace *api.Namespace `msg:",omitempty"`
}

// DeleteNamespace forgets a namespace that nothing uses.
type DeleteNamespace struct {
	Name string `msg:",omitempty"`
}

// UpsertPool creates or replaces a node pool.
type UpsertPool struct {
	Pool *api.NodePool `msg:",omitempty"`
}

// DeletePool forgets a node pool that nothing uses.
type DeletePool struct {
	Name string `msg:",omitempty"`
}

// Commands registers the commands of this service.
func Commands(r *fsm.Registry) {
	r.Register(func() fsm.Command { return &UpsertNamespace{} })
	r.Register(func() fsm.Command { return &DeleteNamespace{} })
	r.Register(func() fsm.Command { return &UpsertPool{} })
	r.Register(func() fsm.Command { return &DeletePool{} })
}

// Kind implements [fsm.Command].
func (*UpsertNamespace) Kind() fsm.Kind { return fsm.KindNamespaceUpsert }

// Kind implements [fsm.Command].
func (*DeleteNamespace) Kind() fsm.Kind { return fsm.KindNamespaceDelete }

// Kind implements [fsm.Command].
func (*UpsertPool) Kind() fsm.Kind { return fsm.KindNodePoolUpsert }

// Kind implements [fsm.Command].
func (*DeletePool) Kind() fsm.Kind { return fsm.KindNodePoolDelete }

// Apply stores the namespace.
func (c *UpsertNamespace) Apply(tx *state.Txn) (any, error) {
	if c.Namespace == nil {
		return nil, fault.New(fault.Invalid, "missing namespace specification")
	}
	n := *c.Namespace
	if n.Quota != "" && tx.Quota(n.Quota) == nil {
		return nil, fault.New(fault.Invalid, "quota %q of namespace %q does not exist: create the quota first", n.Quota, n.Name)
	}
	tx.PutNamespace(&n)
	return nil, nil
}

// Apply stores the node pool.
func (c *UpsertPool) Apply(tx *state.Txn) (any, error) {
	if c.Pool == nil {
		return nil, fault.New(fault.Invalid, "missing node pool specification")
	}
	p := *c.Pool
	tx.PutNodePool(&p)
	return nil, nil
}

// Apply forgets the namespace, unless a job, a volume, a host volume, a variable or a running allocation is in it.
func (c *DeleteNamespace) Apply(tx *state.Txn) (any, error) {
	if tx.Namespace(c.Name) == nil {
		return nil, fault.New(fault.NotFound, "namespace %q not found", c.Name)
	}
	u := use{}
	for j := range tx.Jobs(c.Name) {
		u.add("job", j.ID)
	}
	for v := range tx.Volumes(c.Name) {
		u.add("volume", v.ID)
	}
	for v := range tx.HostVolumes(c.Name) {
		u.add("host volume", v.ID)
	}
	for a := range tx.Allocs(c.Name) {
		if !a.ClientTerminal() {
			u.add("allocation", a.ID)
		}
	}
	for v := range tx.VariableSpan(state.Span{Namespace: c.Name}) {
		u.add("variable", v.Path)
	}
	if err := u.refusal("namespace", c.Name, "purge the jobs, and delete the volumes and the variables first"); err != nil {
		return nil, err
	}
	tx.DeleteNamespace(c.Name)
	return nil, nil
}

// Apply forgets the node pool, unless a node, a job or a host volume names it.
func (c *DeletePool) Apply(tx *state.Txn) (any, error) {
	if tx.NodePool(c.Name) == nil {
		return nil, fault.New(fault.NotFound, "node pool %q not found", c.Name)
	}
	u := use{}
	for n := range tx.Nodes() {
		if n.NodePool == c.Name {
			u.add("node", n.ID)
		}
	}
	for j := range tx.Jobs(api.AllNamespaces) {
		if j.NodePool == c.Name {
			u.add("job", j.Namespace+"/"+j.ID)
		}
	}
	for v := range tx.HostVolumes(api.AllNamespaces) {
		if v.NodePool == c.Name {
			u.add("host volume", v.Namespace+"/"+v.ID)
		}
	}
	if err := u.refusal("node pool", c.Name, "move, purge or delete them first"); err != nil {
		return nil, err
	}
	tx.DeleteNodePool(c.Name)
	return nil, nil
}

// namedMax is how many users of a name a refusal lists.
const namedMax = 5

// use is what still uses a name.
type use struct {
	listed []string
	count  int
}

func (u *use) add(kind, id string) {
	if u.count++; u.count <= namedMax {
		u.listed = append(u.listed, fmt.Sprintf("%s %q", kind, id))
	}
}

// refusal is the error that names what uses it, or nil.
func (u *use) refusal(kind, name, remedy string) error {
	if u.count == 0 {
		return nil
	}
	more := ""
	if u.count > namedMax {
		more = fmt.Sprintf(" and %d more", u.count-namedMax)
	}
	return fault.New(fault.Conflict, "%s %q is still used by %s%s: %s", kind, name, strings.Join(u.listed, ", "), more, remedy)
}
