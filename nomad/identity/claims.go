package identity

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Audiences that only servers accept.
const (
	// AudienceWorkload is the audience of the default identity of a task.
	AudienceWorkload = api.IdentityDefaultAudience
	// AudienceNode is the audience of the identity of a node.
	AudienceNode = api.IdentityNodeAudience
	// AudienceIntroduction is the audience of a token that introduces a new node.
	AudienceIntroduction = api.IdentityIntroductionAudience
)

// Claims are the claims of a token.
type Claims struct {
	Issuer   string   `json:"iss,omitempty"`
	Subject  string   `json:"sub,omitempty"`
	Audience audience `json:"aud,omitempty"`
	// IssuedAt, NotBefore and Expiry are in Unix seconds. [Service.Sign] sets them; Expiry is 0 for a token that does not expire.
	IssuedAt  int64  `json:"iat,omitempty"`
	NotBefore int64  `json:"nbf,omitempty"`
	Expiry    int64  `json:"exp,omitempty"`
	ID        string `json:"jti,omitempty"`

	Namespace    string `json:"nomad_namespace,omitempty"`
	JobID        string `json:"nomad_job_id,omitempty"`
	AllocationID string `json:"nomad_allocation_id,omitempty"`
	Task         string `json:"nomad_task,omitempty"`
	Service      string `json:"nomad_service,omitempty"`

	NodeID         string `json:"nomad_node_id,omitempty"`
	NodeName       string `json:"nomad_node_name,omitempty"`
	NodePool       string `json:"nomad_node_pool,omitempty"`
	NodeDatacenter string `json:"nomad_node_datacenter,omitempty"`
	NodeClass      string `json:"nomad_node_class,omitempty"`

	// TTL is how long the token is valid after it is signed; 0 is forever.
	TTL time.Duration `json:"-"`
	// Extra are further claims.
	Extra map[string]string `json:"-"`
}

// audience is one text or a list of texts in JSON, and always written as a list.
type audience []string

// UnmarshalJSON implements [json.Unmarshaler].
func (a *audience) UnmarshalJSON(body []byte) error {
	var one string
	if json.Unmarshal(body, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(body, (*[]string)(a))
}

// Expires returns the time at which the token ends; zero when it does not.
func (c *Claims) Expires() time.Time {
	if c.Expiry == 0 {
		return time.Time{}
	}
	return time.Unix(c.Expiry, 0).UTC()
}

// plain has the claims without the methods.
type plain Claims

// MarshalJSON implements [json.Marshaler].
func (c *Claims) MarshalJSON() ([]byte, error) {
	body, err := json.Marshal((*plain)(c))
	if err != nil || len(c.Extra) == 0 {
		return body, err
	}
	all := map[string]any{}
	for name, value := range c.Extra {
		if !Reserved(name) {
			all[name] = value
		}
	}
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *Claims) UnmarshalJSON(body []byte) error {
	if err := json.Unmarshal(body, (*plain)(c)); err != nil {
		return err
	}
	var all map[string]any
	if err := json.Unmarshal(body, &all); err != nil {
		return err
	}
	c.Extra = nil
	for name, value := range all {
		if text, ok := value.(string); ok && !Reserved(name) {
			if c.Extra == nil {
				c.Extra = map[string]string{}
			}
			c.Extra[name] = text
		}
	}
	return nil
}

// registered are the names of the claims of this package.
var registered = func() (names []string) {
	t := reflect.TypeFor[Claims]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}()

// Reserved reports whether an extra claim may not have a name. The case makes no difference: JSON decoders ignore it.
func Reserved(name string) bool {
	return name == "" || slices.ContainsFunc(registered, func(own string) bool { return strings.EqualFold(own, name) }) ||
		strings.HasPrefix(strings.ToLower(name), "nomad_")
}

// fit reports whether the claims are those of a token for an audience.
func (c *Claims) fit(audience string) error {
	if !slices.Contains(c.Audience, audience) {
		return fault.New(fault.Denied, "the token is for another audience")
	}
	ok := false
	switch workload := c.AllocationID != ""; audience {
	case AudienceWorkload:
		ok = workload && c.NodeID == ""
	case AudienceNode:
		ok = !workload && c.NodeID != ""
	case AudienceIntroduction:
		ok = !workload && c.NodeID == ""
	}
	if !ok {
		return fault.New(fault.Denied, "the claims of the token are not those of a token for audience %q", audience)
	}
	return nil
}
