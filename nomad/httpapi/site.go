package httpapi

import (
	"net/http"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// later are the paths of features that are not in this version: 501, because 404 would refer to the object.
var later = []string{
	"/v1/client/allocation/:id/snapshot",
	"/v1/operator/upgrade-check/vault-workload-identity",
}

// enterprise are the paths that the free edition of the compatible system refuses.
var enterprise = []string{
	"/v1/sentinel/policies", "/v1/sentinel/policy/:id",
	"/v1/recommendation", "/v1/recommendations", "/v1/recommendations/apply", "/v1/recommendation/:id", "/v1/operator/utilization",
}

func notYet(c *endpoint.Call) (any, error) {
	return nil, fault.New(fault.Unimplemented, "%s: not in this version", c.R.URL.Path)
}

func notFree(*endpoint.Call) (any, error) {
	return nil, fault.New(fault.Unimplemented, "Nomad Enterprise only endpoint")
}

// refusedRoutes are the routes of paths that clients know and this version does not serve.
func refusedRoutes() []endpoint.Route {
	var rows []endpoint.Route
	for _, p := range later {
		rows = append(rows, endpoint.Route{Method: "*", Pattern: p, Serve: notYet})
	}
	for _, p := range enterprise {
		rows = append(rows, endpoint.Route{Method: "*", Pattern: p, Serve: notFree})
	}
	return rows
}

// siteRoutes are for browsers, and for what asks without knowing the API.
var siteRoutes = []endpoint.Route{
	{Method: "GET", Pattern: "/", Serve: siteHome},
	{Method: "GET", Pattern: "/v1/operator/license", Serve: license},
	{Method: "PUT", Pattern: "/v1/operator/license", Serve: notFree},
}

func siteHome(c *endpoint.Call) (any, error) { return nil, endpoint.SendOn(c.W, c.R, "/ui/") }

// page serves the web user interface. Its files need no token: they are the same for all users.
func (c Config) page(w http.ResponseWriter, r *http.Request) {
	if c.UI == nil {
		http.Error(w, "The web user interface is disabled on this agent: see ui.enabled in its configuration", http.StatusNotFound)
		return
	}
	c.UI.ServeHTTP(w, r)
}

func license(c *endpoint.Call) (any, error) {
	c.W.WriteHeader(http.StatusNoContent)
	return nil, endpoint.ErrStreamed
}
