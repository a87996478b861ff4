package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// call is one request on its way.
type call struct {
	*server
	w      http.ResponseWriter
	r      *http.Request
	id     string // from the path
	tag    string // from the path, too
	query  api.QueryOptions
	params url.Values
	done   func() // when the request is over; nil while it has no body
}

func (c *call) ctx() context.Context { return c.r.Context() }

// Bounds of a blocking read.
const (
	waitDefault = 5 * time.Minute
	waitMax     = 10 * time.Minute
)

// parseQuery reads the options that every read knows. Filter, paging and order are done here.
func parseQuery(r *http.Request, p url.Values) (api.QueryOptions, error) {
	q := api.QueryOptions{
		Region: p.Get("region"), Namespace: p.Get("namespace"), AuthToken: token(r),
		Prefix: p.Get("prefix"), Filter: p.Get("filter"), NextToken: p.Get("next_token"),
		Reverse: p.Get("reverse") == "true",
	}
	if q.Namespace == "" {
		q.Namespace = api.DefaultNamespace
	}
	var err error
	if p.Has("stale") {
		if q.Stale, err = boolean(p, "stale"); err != nil {
			return q, err
		}
	}
	if s := p.Get("index"); s != "" {
		if q.MinIndex, err = strconv.ParseUint(s, 10, 64); err != nil {
			return q, fault.New(fault.Invalid, "Invalid index")
		}
	}
	if s := p.Get("wait"); s != "" {
		if q.MaxWait, err = time.ParseDuration(s); err != nil || q.MaxWait < 0 {
			return q, fault.New(fault.Invalid, "Invalid wait time")
		}
	}
	if s := p.Get("per_page"); s != "" {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil || n < 0 {
			return q, fault.New(fault.Invalid, "per_page %q is not a number of rows", s)
		}
		q.PerPage = int32(n)
	}
	return q, nil
}

// waitBound is the longest that a blocking read may take.
func waitBound(q api.QueryOptions) time.Duration {
	d := q.MaxWait
	if d <= 0 {
		d = waitDefault
	}
	d = min(d, waitMax)
	return d + d/16
}

// token reads the secret of the caller.
func token(r *http.Request) string {
	if t := strings.TrimSpace(r.Header.Get("X-Nomad-Token")); t != "" {
		return t
	}
	words := strings.Fields(r.Header.Get("Authorization"))
	if len(words) >= 2 && strings.EqualFold(words[0], "Bearer") {
		return words[1]
	}
	return ""
}

// boolean reads a flag; present without a value is true.
func boolean(p url.Values, name string) (bool, error) {
	if !p.Has(name) {
		return false, nil
	}
	s := p.Get(name)
	if s == "" {
		return true, nil
	}
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, fault.New(fault.Invalid, "invalid %s value %q: want true or false", name, s)
	}
	return b, nil
}

// number reads an optional integer parameter.
func number(p url.Values, name string) (int64, error) {
	s := p.Get(name)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fault.New(fault.Invalid, "invalid %s value %q: want a whole number", name, s)
	}
	return n, nil
}

// filters are the options for a call whose rows the servers filter: they have what the rows do not show.
func (c *call) filters() api.QueryOptions {
	q := c.reads()
	q.Filter = c.query.Filter
	return q
}

// reads are the options for a call: without what is done here.
func (c *call) reads() api.QueryOptions {
	q := c.query
	q.Filter, q.NextToken, q.PerPage, q.Reverse = "", "", 0, false
	return q
}

// writes are the options of a write.
func (c *call) writes() api.WriteRequest {
	return api.WriteRequest{
		Region: c.query.Region, Namespace: c.query.Namespace, SecretID: c.query.AuthToken,
		IdempotencyToken: c.params.Get("idempotency_token"),
	}
}

// read sets the headers of a read; it is called before a missing object is reported too.
func (c *call) read(m api.QueryMeta) {
	h := c.w.Header()
	h.Set("X-Nomad-Index", strconv.FormatUint(max(m.Index, 1), 10))
	h.Set("X-Nomad-LastContact", strconv.FormatInt(m.LastContact.Milliseconds(), 10))
	// A consistent read was answered by the leader.
	h.Set("X-Nomad-KnownLeader", strconv.FormatBool(m.KnownLeader || !c.query.Stale))
}

// readRows is read for lists of jobs, evaluations and allocations, whose index clients know as 0 while there was none
// ever. Within the cluster, where every index is waited for, it is 1: no row can be that old.
func (c *call) readRows(m api.QueryMeta) {
	c.read(m)
	if m.Index <= 1 {
		c.w.Header().Set("X-Nomad-Index", "0")
	}
}

// wrote sets the header of a write.
func (c *call) wrote(m api.WriteMeta) {
	c.w.Header().Set("X-Nomad-Index", strconv.FormatUint(m.Index, 10))
}

// missing is the answer for an object that does not exist.
func missing(text string) error { return fault.New(fault.NotFound, "%s", text) }
