package scheduler

import "github.com/open-nomad/open-nomad/api"

// node is the node as the view has it, or nil. The fleet is quicker to ask and never behind the view: what
// did not change since is the same there.
func (r *run) node(id string) *api.Node {
	if i := r.edit.Find(id); i >= 0 {
		if row := r.edit.Row(i); row != nil && row.Node.ModifyIndex <= r.in.View.Index() {
			return row.Node
		}
	}
	return r.in.View.Node(id)
}
