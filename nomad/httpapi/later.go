package httpapi

import (
	"net/http"

	"github.com/open-nomad/open-nomad/api/fault"
)

// later are the paths of features that are not in this version. They say so: "not found" would be said of the object.
var later = []string{
	"/v1/jobs/statuses", "/v1/job/:id/services", "/v1/job/:id/action", "/v1/allocation/:id/services",
	"/v1/volume/host/:id", "/v1/volumes/claims", "/v1/volumes/claim/:id",
	"/v1/acl/:id", "/v1/vars", "/v1/var/:id", "/v1/services", "/v1/service/:id", "/v1/search/fuzzy", "/v1/event/stream",
	"/v1/client/allocation/:id/exec", "/v1/client/allocation/:id/snapshot", "/v1/client/allocation/:id/pause",
	"/v1/client/metadata", "/v1/client/identity", "/v1/client/identity/renew",
	"/v1/agent/host", "/v1/agent/monitor", "/v1/agent/monitor/export", "/v1/agent/pprof/:id",
	"/v1/operator/upgrade-check/vault-workload-identity", "/.well-known/openid-configuration",
}

// enterprise are the paths that the free edition of the compatible system refuses.
var enterprise = []string{
	"/v1/sentinel/policies", "/v1/sentinel/policy/:id", "/v1/quotas", "/v1/quota-usages", "/v1/quota/:id", "/v1/quota",
	"/v1/recommendation", "/v1/recommendations", "/v1/recommendations/apply", "/v1/recommendation/:id", "/v1/operator/utilization",
}

func notYet(c *call) (any, error) {
	return nil, fault.New(fault.Unimplemented, "%s: not in this version", c.r.URL.Path)
}

func notFree(*call) (any, error) {
	return nil, fault.New(fault.Unimplemented, "Nomad Enterprise only endpoint")
}

// refusedRoutes answer for paths that clients know and this version does not serve.
func refusedRoutes() []route {
	var rows []route
	for _, p := range later {
		rows = append(rows, route{method: "*", pattern: p, serve: notYet})
	}
	for _, p := range enterprise {
		rows = append(rows, route{method: "*", pattern: p, serve: notFree})
	}
	return rows
}

// siteRoutes are for browsers, and for what asks without knowing the API.
var siteRoutes = []route{
	{method: "GET", pattern: "/", serve: siteHome},
	{method: "GET", pattern: "/ui/", serve: sitePage},
	{method: "GET", pattern: "/ui/:id", serve: sitePage},
	{method: "GET", pattern: "/v1/operator/license", serve: license},
	{method: "PUT", pattern: "/v1/operator/license", serve: notFree},
	{method: "GET", pattern: "/v1/job/:id/actions", serve: jobActions},
	{method: "GET", pattern: "/v1/allocation/:id/checks", serve: allocChecks},
	{method: "GET", pattern: "/v1/client/allocation/:id/checks", serve: allocChecks},
}

func siteHome(c *call) (any, error) { return nil, sendOn(c.w, c.r, "/ui/") }

func sitePage(c *call) (any, error) {
	c.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = c.w.Write([]byte("<!doctype html><title>open-nomad</title><p>The web interface is not in this version.\n"))
	return nil, errStreamed
}

func license(c *call) (any, error) {
	c.w.WriteHeader(http.StatusNoContent)
	return nil, errStreamed
}

// jobActions is empty for every job: those with actions are not registered.
func jobActions(c *call) (any, error) {
	if _, err := jobGet(c); err != nil {
		return nil, err
	}
	return []string{}, nil
}

// allocChecks is empty for every allocation: jobs with services are not registered.
func allocChecks(c *call) (any, error) {
	_, meta, err := allocation(c, c.id)
	c.read(meta)
	return struct{}{}, err
}
