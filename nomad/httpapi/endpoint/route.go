package endpoint

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Func serves one method of one path; its result is encoded, nil is an empty response.
type Func func(*Call) (any, error)

// Route is one row of the table. The pattern's ":id" stands for an object's id, which may contain
// slashes when they are escaped, and even when they are not, as long as no other pattern fits better.
// A ":tag" behind it stands for a name of the object's own.
type Route struct {
	Method  string // PUT serves POST too, * all
	Pattern string
	Serve   Func
	Stays   bool // a stream: no deadline
	// Right is what the caller's token must permit when the agent answers itself. What servers and nodes answer, they check
	// themselves. Rights on namespaces are on that of the request.
	Right api.Right
}

// errMethod means that the path does not support the method.
var errMethod = fault.New(fault.Invalid, "Invalid method")

// table finds routes: whole paths first, then the longest prefix and suffix around an id.
type table struct {
	exact map[string][]Route
	ids   []idRoutes
}

type idRoutes struct {
	prefix, suffix string
	between        string // of the id and the tag; "" without a tag
	routes         []Route
}

// target is what a path names.
type target struct{ id, tag string }

func newTable(rows []Route) table {
	t := table{exact: map[string][]Route{}}
	for _, r := range rows {
		prefix, suffix, hasID := strings.Cut(r.Pattern, ":id")
		if !hasID {
			t.exact[r.Pattern] = append(t.exact[r.Pattern], r)
			continue
		}
		between, end, hasTag := strings.Cut(suffix, ":tag")
		if hasTag {
			suffix = end
		} else {
			between = ""
		}
		i := slices.IndexFunc(t.ids, func(x idRoutes) bool {
			return x.prefix == prefix && x.suffix == suffix && x.between == between
		})
		if i < 0 {
			i = len(t.ids)
			t.ids = append(t.ids, idRoutes{prefix: prefix, suffix: suffix, between: between})
		}
		t.ids[i].routes = append(t.ids[i].routes, r)
	}
	slices.SortStableFunc(t.ids, func(a, b idRoutes) int {
		if d := len(b.prefix) - len(a.prefix); d != 0 {
			return d
		}
		return len(b.suffix) - len(a.suffix)
	})
	return t
}

// find returns the route of a request and what its path names.
func (t table) find(r *http.Request) (Route, target, error) {
	path := r.URL.EscapedPath()
	if rows, ok := t.exact[path]; ok {
		row, err := pick(rows, r.Method)
		return row, target{}, err
	}
	for _, x := range t.ids {
		id, tag, ok := x.split(path)
		if !ok {
			continue
		}
		var at target
		var err error
		if at.id, err = url.PathUnescape(id); err == nil {
			at.tag, err = url.PathUnescape(tag)
		}
		if err != nil {
			return Route{}, target{}, fault.New(fault.Invalid, "path %q: %w", path, err)
		}
		row, err := pick(x.routes, r.Method)
		return row, at, err
	}
	return Route{}, target{}, fault.New(fault.NotFound, "Invalid URL %q: there is no such endpoint", path)
}

// below reports whether an object's id may follow the path and a slash.
func (t table) below(path string) bool {
	return slices.ContainsFunc(t.ids, func(x idRoutes) bool { return x.prefix == path+"/" })
}

// split takes the escaped id and tag out of a path that fits.
func (x idRoutes) split(path string) (id, tag string, ok bool) {
	rest, ok := strings.CutPrefix(path, x.prefix)
	if !ok {
		return "", "", false
	}
	id, ok = strings.CutSuffix(rest, x.suffix)
	if !ok || id == "" {
		return "", "", false
	}
	if x.between == "" {
		return id, "", true
	}
	i := strings.LastIndex(id, x.between)
	if i <= 0 || i+len(x.between) == len(id) {
		return "", "", false
	}
	return id[:i], id[i+len(x.between):], true
}

func pick(rows []Route, method string) (Route, error) {
	switch method {
	case http.MethodPost:
		method = http.MethodPut
	case http.MethodHead:
		method = http.MethodGet
	}
	for _, r := range rows {
		if r.Method == method || r.Method == "*" {
			return r, nil
		}
	}
	return Route{}, errMethod
}
