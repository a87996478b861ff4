package api

//msgp:ignore NodeMetaChange

// NodeMetaChange is the change of the dynamic metadata of a node as HTTP has it: a key with a value is set, one with null is
// removed. Other keys stay as they are.
type NodeMetaChange struct {
	NodeID string
	Meta   map[string]*string
}

// NodeMetaApplyRequest changes the dynamic metadata of a node. Keys that the request does not have stay as they are.
type NodeMetaApplyRequest struct {
	NodeID string            `msg:",omitempty"`
	Set    map[string]string `msg:",omitempty"`
	Unset  []string          `msg:",omitempty"`
	WriteRequest
}

// NodeMetaResponse is the metadata of a node.
type NodeMetaResponse struct {
	// Meta is what jobs see: the static keys with the changes of the dynamic ones.
	Meta map[string]string `msg:",omitempty"`
	// Dynamic are the changes that were applied. A key without a value hides the static one.
	Dynamic map[string]*string `msg:",omitempty"`
	// Static is the metadata of the configuration of the agent.
	Static map[string]string `msg:",omitempty"`
}
