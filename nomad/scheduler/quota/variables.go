package quota

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// VariableView is what limits of variables read of the state.
type VariableView interface {
	View
	Variable(ns, path string) *api.VariableRow
	// VariableBytes is the size of the encrypted items of all variables of a namespace.
	VariableBytes(ns string) int64
}

// VariablesLimit is the limit of variables in MB, which has two places in a limit; 0 is none, and a negative number permits
// nothing.
func VariablesLimit(l *api.QuotaLimit) int {
	if r := l.RegionLimit; r != nil && r.Storage != nil && r.Storage.VariablesMB != 0 {
		return r.Storage.VariablesMB
	}
	if l.VariablesLimit != nil {
		return *l.VariablesLimit
	}
	return 0
}

// VariablesOf is the size in bytes of the encrypted items of the variables in the namespaces of the quota.
func VariablesOf(v VariableView, q *api.QuotaSpec) (bytes int64) {
	for n := range v.Namespaces() {
		if n.Quota == q.Name {
			bytes += v.VariableBytes(n.Name)
		}
	}
	return bytes
}

// VariableAllowed refuses a variable that is new or becomes larger when the quota of its namespace does not permit it.
func VariableAllowed(v VariableView, next *api.VariableRow) error {
	grows := int64(len(next.Data))
	if old := v.Variable(next.Namespace, next.Path); old != nil {
		grows -= int64(len(old.Data))
	}
	q := quotaOf(v, next.Namespace)
	if grows <= 0 || q == nil || len(q.Limits) == 0 {
		return nil
	}
	limit := VariablesLimit(q.Limits[0])
	if limit == 0 {
		return nil
	}
	used, most := VariablesOf(v, q), most(&limit)
	if MB(used+grows) <= most {
		return nil
	}
	return fault.New(fault.Exhausted, "variable %q: %s%s: variables exhausted (%d bytes in use, %d more asked, limit %d MB): "+
		"delete variables of its namespaces or raise the limit", next.Path, LimitHit, q.Name, used, grows, most)
}
