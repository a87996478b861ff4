package api

// RelayRequest asks a server to pass a call on to a node that is connected to it. Without a Method it
// only asks whether the node is.
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

// NodeCallRequest asks the servers to have a node answer a user's call, wherever the node is connected
// and in whichever region it is.
type NodeCallRequest struct {
	NodeID string `msg:",omitempty"`
	Method string `msg:",omitempty"`
	// Body is the encoded request.
	Body []byte `msg:",omitempty,limit=67108864"`
	QueryOptions
}
