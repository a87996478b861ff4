package api

// RelayRequest has a server forward a call to a node that is connected to it. Without a Method it only checks whether
// the node is connected.
type RelayRequest struct {
	NodeID string `msg:",omitempty"`
	Method string `msg:",omitempty"`
	// Body is the encoded request.
	Body []byte `msg:",omitempty,limit=67108864"`
}

// RelayResponse is the encoded reply of the node. Held is set when the node is connected to the server.
type RelayResponse struct {
	Held bool   `msg:",omitempty"`
	Body []byte `msg:",omitempty,limit=67108864"`
}

// NodeCallRequest has the servers forward a user's call to a node, in any region and connected to any server.
type NodeCallRequest struct {
	NodeID string `msg:",omitempty"`
	Method string `msg:",omitempty"`
	// Body is the encoded request.
	Body []byte `msg:",omitempty,limit=67108864"`
	QueryOptions
}
