package audit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

const (
	// knownFor is how long the caller of a token is remembered, also after the token was deleted or changed.
	knownFor = 5 * time.Second
	// knownMax limits the tokens that are remembered.
	knownMax = 4096
	// askMax limits the question whom a token belongs to.
	askMax = 2 * time.Second
)

// Accessors of callers without a valid token.
const (
	// Unknown is the accessor of tokens that the servers refuse.
	Unknown = "unknown"
	// Unresolved is the accessor of tokens that the servers could not be asked about.
	Unresolved = "unresolved"
)

var anonymous = auth{AccessorID: api.AnonymousAccessor, Name: "Anonymous Token"}

// callers finds out whom tokens belong to.
type callers struct {
	servers wire.Caller
	mu      sync.Mutex
	known   map[callerKey]known
}

// callerKey is a token, without its secret, where it was used.
type callerKey struct {
	region string
	sum    [sha256.Size]byte
}

type known struct {
	auth
	until time.Time
}

// find returns the caller of a request.
func (c *callers) find(ctx context.Context, r *http.Request) auth {
	secret := endpoint.Token(r)
	if secret == "" {
		return anonymous
	}
	region := r.URL.Query().Get("region")
	key, now := callerKey{region, sha256.Sum256([]byte(secret))}, time.Now()
	c.mu.Lock()
	k, ok := c.known[key]
	c.mu.Unlock()
	if ok && now.Before(k.until) {
		return k.auth
	}
	k = known{c.ask(ctx, secret, region), now.Add(knownFor)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= knownMax {
		clear(c.known)
	}
	c.known[key] = k
	return k.auth
}

func (c *callers) ask(ctx context.Context, secret, region string) auth {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	out, err := wire.ACLWhoAmI.Call(ctx, c.servers, &api.QueryOptions{AuthToken: secret, Region: region, Stale: true})
	switch {
	case errors.Is(err, fault.Denied), err == nil && out.Token == nil:
		return auth{AccessorID: Unknown}
	case err != nil && strings.Contains(err.Error(), access.ErrDisabled.Error()): // tokens mean nothing
		return anonymous
	case err != nil:
		return auth{AccessorID: Unresolved}
	}
	t := out.Token
	a := auth{AccessorID: t.AccessorID, Name: t.Name, Policies: t.Policies, Global: t.Global}
	if !t.CreateTime.IsZero() {
		a.CreateTime = &t.CreateTime
	}
	for _, link := range t.Roles {
		a.Roles = append(a.Roles, role{ID: link.ID, Name: cmp.Or(link.Name, link.ID)})
	}
	return a
}
