package httpapi

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/klauspost/compress/gzhttp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
	"github.com/open-nomad/open-nomad/nomad/httpapi/acl"
	"github.com/open-nomad/open-nomad/nomad/httpapi/agent"
	"github.com/open-nomad/open-nomad/nomad/httpapi/allocs"
	"github.com/open-nomad/open-nomad/nomad/httpapi/audit"
	"github.com/open-nomad/open-nomad/nomad/httpapi/deployments"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
	"github.com/open-nomad/open-nomad/nomad/httpapi/evals"
	"github.com/open-nomad/open-nomad/nomad/httpapi/events"
	"github.com/open-nomad/open-nomad/nomad/httpapi/exec"
	"github.com/open-nomad/open-nomad/nomad/httpapi/jobs"
	"github.com/open-nomad/open-nomad/nomad/httpapi/login"
	"github.com/open-nomad/open-nomad/nomad/httpapi/namespaces"
	"github.com/open-nomad/open-nomad/nomad/httpapi/nodes"
	"github.com/open-nomad/open-nomad/nomad/httpapi/operator"
	"github.com/open-nomad/open-nomad/nomad/httpapi/quotas"
	"github.com/open-nomad/open-nomad/nomad/httpapi/search"
	"github.com/open-nomad/open-nomad/nomad/httpapi/services"
	"github.com/open-nomad/open-nomad/nomad/httpapi/variables"
	"github.com/open-nomad/open-nomad/nomad/httpapi/volumes"
)

// gzipMinBytes is the least that is packed: below, packing takes longer than sending.
const gzipMinBytes = 4 << 10

// extraTimeout limits the question whether a caller may use further paths.
const extraTimeout = 10 * time.Second

// New makes the handler of the whole API.
func New(c Config) http.Handler {
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	if c.CPU == nil {
		c.CPU = cpulimit.New(runtime.GOMAXPROCS(0))
	}
	protection := http.NewCrossOriginProtection()
	if c.AccessControl {
		protection.AddInsecureBypassPattern("/v1/var/") // pages of other sites need a token
	}
	site := protection.Handler(endpoint.NewServer(endpoint.Config{
		Servers: c.Servers, Node: c.Node, LocalNodeID: c.LocalNodeID, Region: c.Region, OtherRegions: c.OtherRegions, Log: c.Log, CPU: c.CPU,
		AccessControl: c.AccessControl,
	}, c.routes()))
	zip, err := gzhttp.NewWrapper(gzhttp.MinSize(gzipMinBytes), gzhttp.CompressionLevel(1), gzhttp.DropETag())
	if err != nil {
		panic(err) // constant options
	}
	zipped := zip(site)
	var all http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for k, v := range c.Headers {
			w.Header().Set(k, v)
		}
		if h := c.extra(r.URL.Path); h != nil {
			if err := c.extraPermitted(r); err != nil {
				http.Error(w, err.Error(), fault.Of(err).HTTPStatus())
				return
			}
			h.ServeHTTP(w, r)
			return
		}
		if r.URL.Path == "/ui" || strings.HasPrefix(r.URL.Path, "/ui/") {
			c.page(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/v1/client/fs/") || strings.HasPrefix(r.URL.Path, "/v1/event/") || r.Header.Get("Upgrade") != "" {
			site.ServeHTTP(w, r) // streams flush small pieces, files may be compressed already, and WebSockets take the connection
			return
		}
		zipped.ServeHTTP(w, r)
	})
	if c.Authenticated {
		all = c.authenticated(all)
	}
	if len(c.Audit.Sinks) > 0 {
		c.Audit.Servers, c.Audit.CPU, c.Audit.Log = c.Servers, c.CPU, c.Log
		all = audit.New(all, c.Audit)
	}
	return paced(all, c.Stall)
}

// routes is the whole table, one part per noun.
func (c Config) routes() []endpoint.Route {
	self := agent.Config{
		Name: c.Name, Datacenter: c.Datacenter, Self: c.Self, Metrics: c.Metrics, Inspect: c.Inspect, Health: c.Health, Reload: c.Reload, Schedulers: c.Schedulers,
		ServerAddresses: c.ServerAddresses, SetServerAddresses: c.SetServerAddresses,
	}
	return slices.Concat(jobs.Routes(), evals.Routes, allocs.Routes(), exec.Routes, deployments.Routes, nodes.Routes(), volumes.Routes(), namespaces.Routes, acl.Routes, login.Routes, quotas.Routes, services.Routes, variables.Routes, events.Routes,
		agent.Routes(self), operator.Routes(), search.Routes, siteRoutes, refusedRoutes())
}

// extra is the handler of a further prefix of paths, the longest that fits.
func (c Config) extra(path string) http.Handler {
	best := ""
	for prefix := range c.Extra {
		if strings.HasPrefix(path, prefix) && len(prefix) > len(best) {
			best = prefix
		}
	}
	return c.Extra[best]
}

// extraPermitted asks the servers whether the token of the caller permits the further paths.
func (c Config) extraPermitted(r *http.Request) error {
	if !c.AccessControl {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.CPU.For(r.Context(), r.RemoteAddr), extraTimeout)
	defer cancel()
	_, err := wire.ACLCheck.Call(ctx, c.Servers, &api.ACLCheckRequest{
		Right: api.Right{On: api.OnAgent, Any: []string{"write"}}, QueryOptions: api.QueryOptions{AuthToken: endpoint.Token(r)},
	})
	return err
}
