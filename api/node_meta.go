package api

// NodeMetaApplyRequest changes the dynamic metadata of a node: a key with a value is set, one without is removed. Keys that the
// request does not have stay as they are.
type NodeMetaApplyRequest struct {
	NodeID string             `msg:",omitempty"`
	Meta   map[string]*string `msg:",omitempty"`
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
