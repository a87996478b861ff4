package api

import "time"

// VolumeEvent is one entry of a volume's timeline: a change of a claim, an attachment, a snapshot or the volume itself.
type VolumeEvent struct {
	// Time is the time of the raft entry in Unix nanoseconds, of the last one if Count is greater than 1; Index is its
	// raft index.
	Time  int64  `msg:",omitempty"`
	Index uint64 `msg:",omitempty"`
	// What is the object: claim, attach, detach, create, delete, expand, snapshot, delete snapshot or volume.
	What string `msg:",omitempty"`
	// Result is the state that was reached: of claims a [ClaimState] or "ended", otherwise begun, done or failed.
	Result string `msg:",omitempty"`
	// Text is the error of a failed step, or why it was safe to end a claim; at most [VolumeEventTextMax] bytes.
	Text    string `json:",omitempty" msg:",omitempty"`
	AllocID string `json:",omitempty" msg:",omitempty"`
	JobID   string `json:",omitempty" msg:",omitempty"`
	NodeID  string `json:",omitempty" msg:",omitempty"`
	// After is the time that the previous state of the object lasted; 0 means unknown.
	After time.Duration `json:",omitempty" msg:",omitempty"`
	// Took is the time of the driver's call; 0 means unknown.
	Took time.Duration `json:",omitempty" msg:",omitempty"`
	// Count is the number of equal entries in a row that this one stands for; 0 means 1.
	Count int `json:",omitempty" msg:",omitempty"`
}

// VolumeTimeline is the stored history of a volume, oldest first; at most [VolumeEventsMax] entries. It is deleted with
// the volume.
type VolumeTimeline struct {
	Namespace string         `msg:",omitempty"`
	VolumeID  string         `msg:",omitempty"`
	Events    []*VolumeEvent `msg:",omitempty"`
}

// Limits of a [VolumeTimeline], which therefore has at most 64 KiB.
const (
	VolumeEventsMax    = 100
	VolumeEventTextMax = 256
	// VolumeEventJobMax is the maximum length of JobID in bytes; a longer one is cut.
	VolumeEventJobMax = 128
)

// VolumeTimelineRequest asks for the timeline of a volume. Last limits it to the newest entries; 0 means all.
type VolumeTimelineRequest struct {
	ID   string `msg:",omitempty"`
	Last int    `msg:",omitempty"`
	QueryOptions
}

// VolumeTimelineResponse lists entries, oldest first. Known is false when the volume does not exist.
type VolumeTimelineResponse struct {
	Known  bool           `msg:",omitempty"`
	Events []*VolumeEvent `msg:",omitempty"`
	QueryMeta
}
