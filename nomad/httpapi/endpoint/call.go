package endpoint

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/lazy"
)

// Call is one request.
type Call struct {
	*Server
	// W is for endpoints that write their own response; they return [ErrStreamed].
	W http.ResponseWriter
	R *http.Request
	// ID and Tag are what the path names.
	ID, Tag string
	// Query are the options that every read knows, Params is the whole query.
	Query  api.QueryOptions
	Params url.Values
	done   func() // releases the slot of the body; nil when there is none
}

// Context ends with the request, at its deadline at the latest.
func (c *Call) Context() context.Context { return c.R.Context() }

// Bounds of a blocking read.
const (
	waitDefault = 5 * time.Minute
	waitMax     = 10 * time.Minute
)

// parseQuery reads the options that every read knows.
func parseQuery(r *http.Request, p url.Values) (api.QueryOptions, error) {
	q := api.QueryOptions{
		Region: p.Get("region"), Namespace: p.Get("namespace"), AuthToken: Token(r),
		Prefix: p.Get("prefix"), Filter: p.Get("filter"), NextToken: p.Get("next_token"),
		Reverse: p.Get("reverse") == "true",
	}
	if q.Namespace == "" {
		q.Namespace = api.DefaultNamespace
	}
	var err error
	if p.Has("stale") {
		if q.Stale, err = flag(p, "stale"); err != nil {
			return q, err
		}
	}
	if s := p.Get("index"); s != "" {
		if q.MinIndex, err = strconv.ParseUint(s, 10, 64); err != nil {
			return q, fault.New(fault.Invalid, "Invalid index")
		}
	}
	if s := p.Get("wait"); s != "" {
		if q.MaxWait, err = time.ParseDuration(s); err != nil {
			return q, fault.New(fault.Invalid, "Invalid wait time")
		}
		q.MaxWait = max(q.MaxWait, 0)
	}
	if s := p.Get("per_page"); s != "" {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			return q, fault.New(fault.Invalid, "per_page %q is not a number of rows", s)
		}
		q.PerPage = int32(max(n, 0))
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

// secretMin is less than the length of every secret.
const secretMin = 8

var signed = lazy.Regexp(`eyJ[\w-]+\.[\w-]+\.[\w-]+`)

// Hidden returns a text of a request, such as its path, without the secret of the caller and without signed tokens. A part
// of their hashes stays, so that a caller who sends an id as its token cannot hide the id from an auditor. What is too short
// for a secret, or has a slash, is not hidden.
func Hidden(r *http.Request, text string) string {
	if secret := Token(r); len(secret) >= secretMin && !strings.Contains(secret, "/") {
		text = strings.ReplaceAll(text, secret, hashed(secret))
	}
	if strings.Contains(text, "eyJ") {
		text = signed().ReplaceAllStringFunc(text, hashed)
	}
	return text
}

func hashed(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return fmt.Sprintf("<redacted %x>", sum[:6])
}

// Token reads the secret of the caller.
func Token(r *http.Request) string {
	if t := strings.TrimSpace(r.Header.Get("X-Nomad-Token")); t != "" {
		return t
	}
	words := strings.Fields(r.Header.Get("Authorization"))
	if len(words) >= 2 && strings.EqualFold(words[0], "Bearer") {
		return words[1]
	}
	return ""
}

// Bool reads a flag; present without a value is true.
func (c *Call) Bool(name string) (bool, error) { return flag(c.Params, name) }

func flag(p url.Values, name string) (bool, error) {
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

// Int reads an optional whole number; 0 when it is not there.
func (c *Call) Int(name string) (int64, error) {
	s := c.Params.Get(name)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fault.New(fault.Invalid, "invalid %s value %q: want a whole number", name, s)
	}
	return n, nil
}

// Writes are the options of a write.
func (c *Call) Writes() api.WriteRequest {
	return api.WriteRequest{
		Region: c.Query.Region, Namespace: c.Query.Namespace, SecretID: c.Query.AuthToken,
		IdempotencyToken: c.Params.Get("idempotency_token"),
	}
}

// SetRead sets the headers of a read; it is called before a missing object is reported too.
func (c *Call) SetRead(m api.QueryMeta) {
	h := c.W.Header()
	h.Set("X-Nomad-Index", strconv.FormatUint(max(m.Index, 1), 10))
	h.Set("X-Nomad-LastContact", strconv.FormatInt(m.LastContact.Milliseconds(), 10))
	// A consistent read was answered by the leader.
	h.Set("X-Nomad-KnownLeader", strconv.FormatBool(m.KnownLeader || !c.Query.Stale))
	if m.NextToken != "" {
		h.Set("X-Nomad-NextToken", m.NextToken)
	}
}

// SetReadRows is SetRead for lists of jobs, evaluations and allocations, whose index clients know as 0 while there was none
// ever. Within the cluster, where every index is waited for, it is 1: no row can be that old.
func (c *Call) SetReadRows(m api.QueryMeta) {
	c.SetRead(m)
	if m.Index <= 1 {
		c.W.Header().Set("X-Nomad-Index", "0")
	}
}

// SetWrote sets the header of a write.
func (c *Call) SetWrote(m api.WriteMeta) {
	c.W.Header().Set("X-Nomad-Index", strconv.FormatUint(m.Index, 10))
}

// Missing returns the error for an object that does not exist.
func Missing(text string) error { return fault.New(fault.NotFound, "%s", text) }
