package audit

import (
	"net/http"
	"slices"

	"github.com/open-nomad/open-nomad/nomad/acl/policy"
)

// Stages of a request.
const (
	OperationReceived = "OperationReceived"
	OperationComplete = "OperationComplete"
)

// All is each stage, or each operation.
const All = "*"

// Filter drops the events that match one entry of each list. Endpoints are paths, in which a star stands for any text.
type Filter struct {
	Endpoints, Stages, Operations []string
}

// drops compares the path as the API does, with its escapes, so that no other spelling of a path passes for it.
func (f Filter) drops(r *http.Request, stage string) bool {
	path := r.URL.EscapedPath()
	return has(f.Stages, stage) && has(f.Operations, r.Method) &&
		slices.ContainsFunc(f.Endpoints, func(glob string) bool { return policy.Matches(glob, path) })
}

func has(list []string, one string) bool {
	return slices.Contains(list, one) || slices.Contains(list, All)
}
