package search

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Limits bound searches.
type Limits struct {
	// Off refuses all searches.
	Off bool
	// Shown is how many matches of one context a response has; 0 is 20.
	Shown int
	// Kept is how many matches of one context are compared with each other to find the best; 0 is 100.
	Kept int
	// Least is the length of the shortest text, in bytes; 0 is 2.
	Least int
}

// textMax is the length of the longest text, in bytes.
const textMax = 256

// Config is what the service needs.
type Config struct {
	State  *state.Store
	Limits Limits
}

// Service implements the RPC method of searches.
type Service struct{ Config }

// New makes the service.
func New(c Config) *Service {
	c.Limits.Shown, c.Limits.Kept, c.Limits.Least = cmp.Or(c.Limits.Shown, 20), cmp.Or(c.Limits.Kept, 100), cmp.Or(c.Limits.Least, 2)
	return &Service{c}
}

// Handlers binds the RPC method of the service.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{wire.SearchFuzzy.Handle(s.Fuzzy)}
}

// Fuzzy finds objects whose names contain the text of the request.
func (s *Service) Fuzzy(ctx context.Context, r *api.FuzzySearchRequest) (*api.FuzzySearchResponse, error) {
	wanted, err := s.check(r)
	if err != nil {
		return nil, err
	}
	ns, rights := cmp.Or(r.Namespace, api.DefaultNamespace), access.Of(ctx).Rights
	wanted = slices.DeleteFunc(wanted, func(k kind) bool { return !k.listable(rights, ns) })
	guarded := slices.ContainsFunc(wanted, func(k kind) bool { return k.right.On != "" })
	if len(wanted) == 0 || !guarded && (ns == api.AllNamespaces || !rights.Sees(ns)) {
		return nil, access.ErrDenied
	}
	keys := map[state.Key]bool{}
	for _, k := range wanted {
		for _, table := range k.tables {
			keys[state.TableKey(table)] = true
		}
	}
	out := &api.FuzzySearchResponse{}
	err = rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, slices.Collect(maps.Keys(keys)), func(tx *state.Txn) error {
		rights := access.Of(ctx).Rights // they may have changed while the call waited
		out.Matches, out.Truncations = map[string][]*api.FuzzyMatch{}, map[string]bool{}
		c := &collector{text: strings.ToLower(r.Text), most: s.Limits.Kept, found: map[string][]scored{}, more: map[string]bool{}, wanted: r.Context}
		for _, k := range wanted {
			if !k.listable(rights, ns) {
				continue
			}
			k.walk(tx, &view{ns: ns, rights: rights}, c)
		}
		for _, k := range wanted {
			for _, name := range k.contexts {
				out.Truncations[name] = c.more[name] || len(c.found[name]) > s.Limits.Shown
				if rows := c.best(name, s.Limits.Shown); len(rows) > 0 || k.byID {
					out.Matches[name] = rows
				}
			}
		}
		return nil
	})
	return out, err
}

// check returns the kinds of objects that the request names.
func (s *Service) check(r *api.FuzzySearchRequest) ([]kind, error) {
	switch {
	case s.Limits.Off:
		return nil, fault.New(fault.Invalid, "fuzzy search is not enabled: set server.search.fuzzy_enabled on the servers")
	case len(r.Text) < s.Limits.Least:
		return nil, fault.New(fault.Invalid, "fuzzy search query must be at least %d characters, got %d", s.Limits.Least, len(r.Text))
	case len(r.Text) > textMax:
		return nil, fault.New(fault.Invalid, "fuzzy search query has %d characters, at most %d are searched for", len(r.Text), textMax)
	case r.Context == "" || r.Context == api.SearchAll:
		return slices.Clone(kinds), nil
	}
	var all []string
	for _, k := range kinds {
		if slices.Contains(k.contexts, r.Context) {
			return []kind{k}, nil
		}
		all = append(all, k.contexts...)
	}
	return nil, fault.New(fault.Invalid, "context must be one of %v or 'all' for all contexts; got %.140q", all, r.Context)
}

// scored is a match with what orders matches: where in the name the text begins, and the length of the name.
type scored struct {
	*api.FuzzyMatch
	at int
}

func better(a, b scored) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID), slices.Compare(a.Scope, b.Scope))
}

// collector keeps the matches of a search by context.
type collector struct {
	text string
	// wanted is the only context whose matches are kept; empty and "all" keep those of all contexts.
	wanted string
	most   int
	found  map[string][]scored
	more   map[string]bool
}

// add keeps an object when its name contains the text. Scope is called for matches only.
func (c *collector) add(context, name string, scope func() []string) {
	if c.wanted != "" && c.wanted != api.SearchAll && c.wanted != context {
		return
	}
	at := strings.Index(strings.ToLower(name), c.text)
	if at < 0 {
		return
	}
	if len(c.found[context]) == c.most {
		c.more[context] = true
		return
	}
	c.found[context] = append(c.found[context], scored{&api.FuzzyMatch{ID: name, Scope: scope()}, at})
}

// prefix keeps an object when its id begins with the text.
func (c *collector) prefix(context, id string, scope func() []string) {
	if strings.HasPrefix(id, c.text) {
		c.add(context, id, scope)
	}
}

// best returns the best matches of a context, without doubles.
func (c *collector) best(context string, n int) []*api.FuzzyMatch {
	rows := c.found[context]
	slices.SortFunc(rows, better)
	rows = slices.CompactFunc(rows, func(a, b scored) bool { return better(a, b) == 0 })
	out := make([]*api.FuzzyMatch, 0, min(n, len(rows)))
	for _, r := range rows[:min(n, len(rows))] {
		out = append(out, r.FuzzyMatch)
	}
	return out
}
