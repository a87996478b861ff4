package endpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// Answer is the reply of a read; it embeds the values of the headers.
type Answer[R any] interface {
	*R
	Answer() *api.QueryMeta
}

// written is a response of a write.
type written[R any] interface {
	*R
	Written() *api.WriteMeta
}

// Read calls a method of the servers and sets the headers of a read, also for a reply without the object.
func Read[Q, R any, A Answer[R]](c *Call, m wire.Method[Q, R], req *Q) (*R, error) {
	out, err := m.Call(c.Context(), c.Servers, req)
	if err != nil {
		return nil, err
	}
	c.SetRead(*A(out).Answer())
	return out, nil
}

// ReadRows is Read for lists whose index is 0 while there was no row ever; see [Call.SetReadRows].
func ReadRows[Q, R any, A Answer[R]](c *Call, m wire.Method[Q, R], req *Q) (*R, error) {
	out, err := Read[Q, R, A](c, m, req)
	if err == nil {
		c.SetReadRows(*A(out).Answer())
	}
	return out, err
}

// Write calls a method of the servers, sets the header of a write and returns the reply.
func Write[Q, R any, W written[R]](c *Call, m wire.Method[Q, R], req *Q) (any, error) {
	out, err := m.Call(c.Context(), c.Servers, req)
	if err != nil {
		return nil, err
	}
	c.SetWrote(*W(out).Written())
	return out, nil
}

// WriteEmpty is Write for methods that return an index only.
func WriteEmpty[Q any](c *Call, m wire.Method[Q, api.WriteMeta], req *Q) (any, error) {
	_, err := Write(c, m, req)
	return nil, err
}

// Found returns an object, or an error of the class [fault.NotFound] when it is nil.
func Found[T any](object *T, otherwise string) (any, error) {
	if object == nil {
		return nil, Missing(otherwise)
	}
	return object, nil
}

// Status writes a response with another code than 200, for load balancers.
func (c *Call) Status(code int, out any) (any, error) {
	body, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	c.W.Header().Set("Content-Type", "application/json")
	c.W.WriteHeader(code)
	_, _ = c.W.Write(body)
	return nil, ErrStreamed
}

// Permitted asks the servers whether the token of the caller permits what this agent serves itself.
func (c *Call) Permitted(r api.Right) error {
	if r.On == "" || !c.AccessControl {
		return nil
	}
	ask := &api.ACLCheckRequest{Right: r, QueryOptions: api.QueryOptions{AuthToken: c.Query.AuthToken}}
	if r.On == api.OnNamespace {
		ask.Name = c.Query.Namespace
	}
	_, err := wire.ACLCheck.Call(c.Context(), c.Servers, ask)
	return err
}

// ToNode reaches the node that a request names, or this agent's own.
func (c *Call) ToNode(id string) (wire.Caller, string, error) {
	elsewhere := c.Query.Region != "" && c.Query.Region != cmp.Or(c.Region, api.GlobalRegion)
	if id == "" && c.LocalNodeID != nil && !elsewhere {
		id = c.LocalNodeID()
	}
	switch {
	case id == "":
		return nil, "", fault.New(fault.Invalid, "No local Node and node_id not provided")
	case elsewhere:
		return wire.Through(c.Servers, c.Query.Region, id), id, nil
	case c.Node == nil:
		return nil, "", fault.New(fault.Unavailable, "node %s is not reachable from this agent", id)
	}
	node, err := c.Node(id)
	if errors.Is(err, fault.Unavailable) {
		// A retry may succeed only when the node belongs to the cluster.
		if known, asked := wire.NodeGet.Call(c.Context(), c.Servers, &api.NodeRequest{NodeID: id, QueryOptions: c.Query}); asked == nil && known.Node == nil {
			return nil, "", fault.New(fault.NotFound, "Unknown node: %s", id)
		}
	}
	return node, id, err
}

// Broken ends a response: with an error when nothing was sent, else by closing the connection, so
// that the client sees that something is missing.
func (c *Call) Broken(begun bool, err error) error {
	if !begun {
		return err
	}
	if c.Context().Err() == nil {
		c.Log.Warn("stream broke off", "path", Hidden(c.R, c.R.URL.Path), "error", err)
		panic(http.ErrAbortHandler)
	}
	return ErrStreamed
}

// List makes a nil list an empty one.
func List[T any](rows []T) []T {
	if rows == nil {
		return []T{}
	}
	return rows
}
