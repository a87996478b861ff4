package endpoint

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
	"github.com/open-nomad/open-nomad/internal/tracing"
	"github.com/open-nomad/open-nomad/nomad/httpapi/encode"
)

// Bounds of one request.
const (
	requestTimeout = 2 * time.Minute
	volumeTimeout  = 10 * time.Minute
)

// Config configures all endpoints.
type Config struct {
	// Servers carries every server method.
	Servers wire.Caller
	// Node reaches a node; it fails with fault.Unavailable when the node is not connected.
	Node func(id string) (wire.Caller, error)
	// LocalNodeID is the id of this agent's node, or "" when it has none.
	LocalNodeID func() string
	// Region is that of this agent.
	Region string
	// OtherRegions is set when Servers forward to other regions.
	OtherRegions bool
	// AccessControl is set when tokens decide what a caller may do.
	AccessControl bool
	Log           hclog.Logger
	// CPU limits encoding and decoding.
	CPU *cpulimit.Limit
}

// Server finds the endpoint of a request, calls it and writes the response.
type Server struct {
	Config
	routes table
	bodies bodies
}

// NewServer serves the routes.
func NewServer(c Config, routes []Route) *Server {
	return &Server{Config: c, routes: newTable(routes), bodies: newBodies()}
}

// ErrStreamed means that the endpoint wrote its own response.
var ErrStreamed = errors.New("answer was streamed")

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	trace := ""
	err := s.answer(w, r, &trace)
	switch {
	case err == nil:
	case errors.Is(err, ErrStreamed):
	default:
		s.writeError(w, r, err)
	}
	log := s.Log
	if trace != "" {
		log = log.With("trace_id", trace)
	}
	log.Debug("request", "method", r.Method, "path", Hidden(r, r.URL.Path), "took", time.Since(start)) // operators may follow the log at a level of their own
}

// answer serves a request. It sets trace to the id of the trace, if there is one.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, trace *string) (err error) {
	if at := r.URL.EscapedPath(); at != cleaned(at) {
		return SendOn(w, r, cleaned(at))
	}
	if s.crossSite(w, r) {
		return ErrStreamed
	}
	route, at, err := s.routes.find(r)
	if at := r.URL.EscapedPath(); errors.Is(err, fault.NotFound) && s.routes.below(at) {
		return SendOn(w, r, at+"/")
	}
	if err != nil {
		return err
	}
	params := r.URL.Query()
	q, err := parseQuery(r, params)
	if err != nil {
		return err
	}
	if home := cmp.Or(s.Region, api.GlobalRegion); !s.OtherRegions && cmp.Or(q.Region, home) != home {
		return fault.New(fault.Invalid, "No path to region")
	}
	ctx, cancel := bound(r.Context(), route.Stays, q.MinIndex > 0, strings.HasPrefix(r.URL.Path, "/v1/volume"), waitBound(q))
	defer cancel()
	if !route.Stays && q.MinIndex == 0 { // what waits for changes says nothing about the cluster
		var span tracing.Span
		ctx, span = tracing.Request(ctx, r.Method, route.Pattern, r.Header.Get("Traceparent"))
		*trace = tracing.ID(ctx)
		defer func() { span.End(spanError(err)) }()
	}
	ctx = s.CPU.For(ctx, r.RemoteAddr)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		ctx = wire.Once(ctx)
	}
	c := &Call{Server: s, W: w, R: r.WithContext(ctx), ID: at.id, Tag: at.tag, Query: q, Params: params}
	defer func() {
		if c.done != nil {
			c.done()
		}
	}()
	if err := c.Permitted(route.Right); err != nil {
		return err
	}
	out, err := route.Serve(c)
	if err != nil {
		return err
	}
	if out == nil {
		return nil
	}
	w.Header().Set("Content-Type", "application/json")
	if err := encode.Answer(ctx, w, out, params.Has("pretty") && params.Get("pretty") != "0"); !errors.Is(err, encode.ErrGone) {
		return err
	}
	return ErrStreamed
}

// spanError is the error of a request as its span records it.
func spanError(err error) error {
	if errors.Is(err, ErrStreamed) {
		return nil
	}
	return err
}

// SendOn redirects the client to another path, with its method, body and query.
func SendOn(w http.ResponseWriter, r *http.Request, to string) error {
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusTemporaryRedirect)
	return ErrStreamed
}

// cleaned is an escaped path without empty and dotted parts; the slash at its end stays.
func cleaned(at string) string {
	to := path.Clean("/" + at)
	if strings.HasSuffix(at, "/") && to != "/" {
		to += "/"
	}
	return to
}

// crossSite permits pages of other sites what browsers are known to do: read from nodes, and read and, with access control,
// which demands a token of each request, write variables. It reports whether it responded to a preflight request.
func (s *Server) crossSite(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("Origin") == "" || !slices.ContainsFunc(crossPaths, func(p string) bool { return strings.HasPrefix(r.URL.Path, p) }) {
		return false
	}
	method := r.Method
	asks := method == http.MethodOptions
	if asks {
		method = r.Header.Get("Access-Control-Request-Method")
	}
	writes := s.AccessControl && strings.HasPrefix(r.URL.Path, "/v1/var/") && (method == http.MethodPut || method == http.MethodDelete)
	if method != http.MethodGet && method != http.MethodHead && !writes {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Credentials", "true")
	if asks {
		h.Set("Access-Control-Allow-Methods", method)
		if wanted := r.Header.Get("Access-Control-Request-Headers"); wanted != "" {
			h.Set("Access-Control-Allow-Headers", wanted)
		}
		w.WriteHeader(http.StatusNoContent)
	}
	return asks
}

var crossPaths = []string{"/v1/client/fs/", "/v1/client/stats", "/v1/client/allocation/", "/v1/client/metadata", "/v1/client/identity", "/v1/vars", "/v1/var/"}

// bound gives a request its deadline. Streams end with their client.
func bound(ctx context.Context, stream, blocking, volume bool, wait time.Duration) (context.Context, context.CancelFunc) {
	switch {
	case stream:
		return context.WithCancel(ctx)
	case blocking:
		return context.WithTimeout(ctx, wait+requestTimeout)
	case volume:
		return context.WithTimeout(ctx, volumeTimeout)
	}
	return context.WithTimeout(ctx, requestTimeout)
}

// writeError is the one place where an error becomes a code and a text.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && !errors.Is(err, errSlow) {
		return // the client went away
	}
	code := statusOf(err)
	logAt := s.Log.Debug
	if code >= http.StatusInternalServerError && code != http.StatusNotImplemented {
		logAt = s.Log.Error
	}
	logAt("request failed", "method", r.Method, "path", Hidden(r, r.URL.Path), "code", code, "error", Hidden(r, err.Error()))
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(err.Error()))
}

func statusOf(err error) int {
	if errors.Is(err, errMethod) {
		return http.StatusMethodNotAllowed
	}
	class := fault.Of(err)
	if class == fault.Internal && errors.Is(err, context.DeadlineExceeded) {
		class = fault.Timeout
	}
	return class.HTTPStatus()
}
