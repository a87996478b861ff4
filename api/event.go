package api

//msgp:ignore Events Event

import "encoding/json"

// Topics of events. TopicAll stands for all of them.
const (
	TopicAll              = "*"
	TopicJob              = "Job"
	TopicEvaluation       = "Evaluation"
	TopicAllocation       = "Allocation"
	TopicDeployment       = "Deployment"
	TopicNode             = "Node"
	TopicNodePool         = "NodePool"
	TopicService          = "Service"
	TopicHostVolume       = "HostVolume"
	TopicCSIVolume        = "CSIVolume"
	TopicCSIPlugin        = "CSIPlugin"
	TopicVolumeClaim      = "VolumeClaim"
	TopicVolumeAttachment = "VolumeAttachment"
	TopicVariable         = "Variable"
	TopicACLToken         = "ACLToken"
	TopicACLPolicy        = "ACLPolicy"
	TopicACLRole          = "ACLRole"
	TopicACLAuthMethod    = "ACLAuthMethod"
	TopicACLBindingRule   = "ACLBindingRule"
	TopicOperator         = "Operator"
)

// Events is one line of the event stream: the events of one raft index. A line without Index and Events is a heartbeat.
type Events struct {
	Index  uint64  `json:",omitempty"`
	Events []Event `json:",omitempty"`
	// Error is why the server ends the stream; it is in the last line only.
	Error string `json:",omitempty"`
}

// Event is the change of one object.
type Event struct {
	Topic string
	// Type is the kind of the change, such as JobRegistered.
	Type string
	// Key is the id of the object; FilterKeys are further keys that subscribers can name.
	Key        string
	FilterKeys []string
	// Namespace is that of the object; empty for objects without one.
	Namespace string
	Index     uint64
	// Payload is an object whose field, named like the topic's noun, holds the changed object.
	Payload json.RawMessage
}

// EventsRequest reads the events after a position. MinIndex of the first request is the raft index to begin at; 0 begins
// with the next change. Its Namespace may be "*".
type EventsRequest struct {
	// Topics are texts like "Job" or "Job:example"; none means all topics.
	Topics []string `msg:",omitempty"`
	// Cursor is that of the previous response; the zero value is the first request, whose response has no data.
	Cursor EventCursor `msg:",omitempty"`
	QueryOptions
}

// EventCursor is a position in the events.
type EventCursor struct {
	// Server and Line identify the server and the history of its state since the last restore of a snapshot.
	Server string `msg:",omitempty"`
	Line   uint64 `msg:",omitempty"`
	// Next is the raft index of the next events, and Event the number of events of this index that were read already.
	Next  uint64 `msg:",omitempty"`
	Event int    `msg:",omitempty"`
}

// EventsResponse contains lines of JSON, see [Events]. The last line may continue in the next response.
type EventsResponse struct {
	// Data are parts of the lines in order; there are none when MaxWait passed without events.
	Data   [][]byte    `msg:",omitempty"`
	Cursor EventCursor `msg:",omitempty"`
	QueryMeta
}
