package scheduler

import "github.com/open-nomad/open-nomad/api"

// node returns the node as of the view, or nil. A lookup in the fleet is faster, and the fleet is never older than the
// view: a node that did not change since is the same in both.
func (r *run) node(id string) *api.Node {
	if i := r.edit.Find(id); i >= 0 {
		if row := r.edit.Row(i); row != nil && row.Node.ModifyIndex <= r.in.View.Index() {
			return row.Node
		}
	}
	return r.in.View.Node(id)
}
