package audit

import (
	"cmp"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// Limits of texts in bytes: they come from clients.
const (
	pathMax = 2 << 10
	textMax = 256
)

// event is one line.
type event struct {
	CreatedAt time.Time `json:"created_at"`
	EventType string    `json:"event_type"`
	Payload   payload   `json:"payload"`
}

type payload struct {
	ID        string    `json:"id"`
	Stage     string    `json:"stage"`
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Version   int       `json:"version"`
	Auth      auth      `json:"auth"`
	Request   request   `json:"request"`
	Response  *response `json:"response,omitempty"`
}

// auth is the token of the caller without its secret.
type auth struct {
	AccessorID string     `json:"accessor_id"`
	Name       string     `json:"name,omitempty"`
	Policies   []string   `json:"policies,omitempty"`
	Roles      []role     `json:"roles,omitempty"`
	Global     bool       `json:"global"`
	CreateTime *time.Time `json:"create_time,omitempty"`
}

type role struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type request struct {
	ID          string      `json:"id"`
	Operation   string      `json:"operation"`
	Endpoint    string      `json:"endpoint"`
	Namespace   namespace   `json:"namespace"`
	Region      string      `json:"region,omitempty"`
	Prefix      string      `json:"prefix,omitempty"`
	RequestMeta requestMeta `json:"request_meta"`
	NodeMeta    nodeMeta    `json:"node_meta"`
}

type namespace struct {
	ID string `json:"id"`
}

type requestMeta struct {
	RemoteAddress string `json:"remote_address"`
	UserAgent     string `json:"user_agent"`
}

type nodeMeta struct {
	IP string `json:"ip"`
}

type response struct {
	StatusCode int    `json:"status_code"`
	Error      string `json:"error,omitempty"`
}

func (a *auditor) request(r *http.Request) request {
	params := r.URL.Query()
	text := func(s string, limit int) string {
		if s = endpoint.Hidden(r, s); len(s) > limit {
			s = s[:limit] + "..."
		}
		return s
	}
	return request{
		ID: uuid.NewString(), Operation: text(r.Method, textMax), Endpoint: text(r.URL.EscapedPath(), pathMax),
		Namespace:   namespace{text(cmp.Or(params.Get("namespace"), api.DefaultNamespace), textMax)},
		Region:      text(params.Get("region"), textMax),
		Prefix:      text(params.Get("prefix"), textMax),
		RequestMeta: requestMeta{RemoteAddress: r.RemoteAddr, UserAgent: text(r.UserAgent(), textMax)},
		NodeMeta:    nodeMeta{a.Address},
	}
}

// writes reports whether the request may change something.
func (e *event) writes() bool {
	switch e.Payload.Request.Operation {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return true
}
