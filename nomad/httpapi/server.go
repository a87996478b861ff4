package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/klauspost/compress/gzhttp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// Bounds of one request.
const (
	requestTimeout = 2 * time.Minute
	volumeTimeout  = 10 * time.Minute
	gzipMinBytes   = 4 << 10 // below, packing takes longer than sending
)

// server serves the HTTP API.
type server struct {
	Config
	routes table
	parses *parses
	long   *lanes
	short  *lanes
}

// errStreamed is the outcome of an endpoint that wrote its own answer.
var errStreamed = errors.New("answer was streamed")

// New makes the handler of the whole API.
func New(c Config) http.Handler {
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	if c.Turns == nil {
		c.Turns = wire.NewProcessors(runtime.GOMAXPROCS(0))
	}
	s := &server{Config: c, routes: newTable(allRoutes()), parses: newParses(), long: newLanes(longMax, longAll), short: newLanes(shortMax, shortAll)}
	site := http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.serve))
	zip, err := gzhttp.NewWrapper(gzhttp.MinSize(gzipMinBytes), gzhttp.CompressionLevel(1), gzhttp.DropETag())
	if err != nil {
		panic(err) // constant options
	}
	zipped := zip(site)
	all := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for k, v := range c.Headers {
			w.Header().Set(k, v)
		}
		if h := s.extra(r.URL.Path); h != nil {
			h.ServeHTTP(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/v1/client/fs/") {
			site.ServeHTTP(w, r) // streams flush small pieces and files may be compressed already
			return
		}
		zipped.ServeHTTP(w, r)
	})
	return paced(all, cmp.Or(c.Stall, stallMax))
}

func (s *server) extra(path string) http.Handler {
	best := ""
	for prefix := range s.Extra {
		if strings.HasPrefix(path, prefix) && len(prefix) > len(best) {
			best = prefix
		}
	}
	return s.Extra[best]
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	err := s.answer(w, r)
	switch {
	case err == nil:
	case errors.Is(err, errStreamed):
	default:
		s.writeError(w, r, err)
	}
	if s.Log.IsDebug() {
		s.Log.Debug("request", "method", r.Method, "path", r.URL.RequestURI(), "took", time.Since(start))
	}
}

func (s *server) answer(w http.ResponseWriter, r *http.Request) error {
	if at := r.URL.EscapedPath(); at != cleaned(at) {
		return sendOn(w, r, cleaned(at))
	}
	if crossSite(w, r) {
		return errStreamed
	}
	route, at, err := s.routes.find(r)
	if at := r.URL.EscapedPath(); errors.Is(err, fault.NotFound) && s.routes.below(at) {
		return sendOn(w, r, at+"/")
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
	ctx, cancel := bound(r.Context(), route.stays, q.MinIndex > 0, strings.HasPrefix(r.URL.Path, "/v1/volume"), waitBound(q))
	defer cancel()
	ctx = s.Turns.For(ctx, r.RemoteAddr)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		ctx = wire.Once(ctx)
	}
	c := &call{server: s, w: w, r: r.WithContext(ctx), id: at.id, tag: at.tag, query: q, params: params}
	defer func() {
		if c.done != nil {
			c.done()
		}
	}()
	out, err := route.serve(c)
	if err != nil {
		return err
	}
	return c.write(out)
}

// sendOn redirects the client to another path, with its method, body and query.
func sendOn(w http.ResponseWriter, r *http.Request, to string) error {
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusTemporaryRedirect)
	return errStreamed
}

// cleaned is an escaped path without empty and dotted parts; the slash at its end stays.
func cleaned(at string) string {
	to := path.Clean("/" + at)
	if strings.HasSuffix(at, "/") && to != "/" {
		to += "/"
	}
	return to
}

// crossSite lets pages of other sites read what browsers are known to read from nodes. It reports whether it answered
// the question of a browser whether that is so.
func crossSite(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("Origin") == "" || !slices.ContainsFunc(crossPaths, func(p string) bool { return strings.HasPrefix(r.URL.Path, p) }) {
		return false
	}
	method := r.Method
	asks := method == http.MethodOptions
	if asks {
		method = r.Header.Get("Access-Control-Request-Method")
	}
	if method != http.MethodGet && method != http.MethodHead {
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

var crossPaths = []string{"/v1/client/fs/", "/v1/client/stats", "/v1/client/allocation/", "/v1/client/metadata", "/v1/client/identity"}

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
func (s *server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && !errors.Is(err, errSlow) {
		return // the client went away
	}
	code := statusOf(err)
	if code >= http.StatusInternalServerError {
		s.Log.Error("request failed", "method", r.Method, "path", r.URL.Path, "code", code, "error", err)
	}
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
