package api

import "time"

// AllocListRequest lists allocations.
type AllocListRequest struct {
	QueryOptions
}

// AllocRowsResponse lists allocations of which a list shows a part.
type AllocRowsResponse struct {
	Allocs []*Allocation `msg:",omitempty"`
	QueryMeta
}

// Sent is what of it goes between processes.
func (r *AllocRowsResponse) Sent() any {
	out := &AllocRowsResponse{QueryMeta: r.QueryMeta}
	for _, a := range r.Allocs {
		out.Allocs = append(out.Allocs, a.listed())
	}
	return out
}

// listed is what lists show of an allocation: no metrics, and of its job the type and the version.
func (a *Allocation) listed() *Allocation {
	row := *a
	row.Metrics, row.SharedResources = nil, nil
	if a.Job != nil {
		row.Job = &Job{Type: a.Job.Type, Version: a.Job.Version}
	}
	return &row
}

// AllocListResponse lists allocations.
type AllocListResponse struct {
	Allocs []*AllocStub `msg:",omitempty"`
	QueryMeta
}

// AllocRequest names one allocation.
type AllocRequest struct {
	AllocID string `msg:",omitempty"`
	// Locate asks where the allocation runs and for the names of its tasks. A caller who may use the allocation in another
	// way than reading its job gets nothing more.
	Locate bool `json:",omitempty" msg:",omitempty"`
	QueryOptions
}

// AllocGetResponse holds one allocation with its job; nil when it does not exist.
type AllocGetResponse struct {
	Alloc *Allocation `msg:",omitempty"`
	QueryMeta
}

// AllocFullListResponse lists whole allocations.
type AllocFullListResponse struct {
	Allocs []*Allocation `msg:",omitempty"`
	QueryMeta
}

// AllocStopRequest asks to stop an allocation and, as usual, to place a replacement.
type AllocStopRequest struct {
	AllocID         string `msg:",omitempty"`
	NoShutdownDelay bool   `msg:",omitempty"`
	Reschedule      bool   `msg:",omitempty"`
	WriteRequest
}

// AllocStopResponse is the response of stopping an allocation.
type AllocStopResponse struct {
	EvalID string `msg:",omitempty"`
	WriteMeta
}

// The requests below are served by the node that runs the allocation.

// AllocRestartRequest restarts one task, or all running ones when TaskName is empty;
// AllTasks includes those that have ended.
type AllocRestartRequest struct {
	AllocID  string `msg:",omitempty"`
	TaskName string `msg:",omitempty"`
	AllTasks bool   `msg:",omitempty"`
	WriteRequest
}

// AllocSignalRequest sends a signal to one task, or to all running ones when Task is empty.
type AllocSignalRequest struct {
	AllocID string `msg:",omitempty"`
	Task    string `msg:",omitempty"`
	Signal  string `msg:",omitempty"`
	WriteRequest
}

// AllocPauseRequest pauses or runs one task with a schedule, or gives it back to its schedule: ScheduleState is pause, run
// or scheduled.
type AllocPauseRequest struct {
	AllocID       string `msg:",omitempty"`
	Task          string `msg:",omitempty"`
	ScheduleState string `msg:",omitempty"`
	WriteRequest
}

// AllocPauseStateRequest reads whether one task is paused.
type AllocPauseStateRequest struct {
	AllocID string `msg:",omitempty"`
	Task    string `msg:",omitempty"`
	QueryOptions
}

// AllocGetPauseResponse is the state of a task with a schedule: run, or what [TaskState.Paused] holds.
type AllocGetPauseResponse struct {
	ScheduleState string `msg:",omitempty"`
}

// AllocStatsResponse is what an allocation uses now.
type AllocStatsResponse struct {
	Stats *AllocResourceUsage `msg:",omitempty"`
}

// AllocLogsRequest reads a piece of a task's log. With Wait > 0 an empty piece waits that long for more.
type AllocLogsRequest struct {
	AllocID string `msg:",omitempty"`
	Task    string `msg:",omitempty"`
	// Kind is stdout or stderr.
	Kind string `msg:",omitempty"`
	// Origin is start or end and counts only while Cursor is zero; Offset is relative to it in bytes.
	Origin string    `msg:",omitempty"`
	Offset int64     `msg:",omitempty"`
	Cursor LogCursor `msg:",omitempty"`
	// Limit bounds the piece in bytes; 0 means 64 KiB.
	Limit int64         `msg:",omitempty"`
	Wait  time.Duration `msg:",omitempty"`
	QueryOptions
}

// LogCursor is a place in rotated log files; the zero value means "not started".
type LogCursor struct {
	Started bool  `msg:",omitempty"`
	Index   int64 `msg:",omitempty"`
	Offset  int64 `msg:",omitempty"`
}

// AllocLogsResponse is a piece of a log and where the next one begins.
type AllocLogsResponse struct {
	Data   []byte    `msg:",omitempty"`
	File   string    `msg:",omitempty"`
	Cursor LogCursor `msg:",omitempty"`
	// End is set when the cursor stands at the end of the newest file.
	End bool `msg:",omitempty"`
	// Ended is set when the task has ended and writes no more.
	Ended bool `msg:",omitempty"`
}

// AllocFileRequest names a path inside an allocation's directory; Offset and Limit bound a read in bytes.
type AllocFileRequest struct {
	AllocID string `msg:",omitempty"`
	Path    string `msg:",omitempty"`
	Offset  int64  `msg:",omitempty"`
	Limit   int64  `msg:",omitempty"`
	QueryOptions
}

// AllocFileListResponse lists a folder.
type AllocFileListResponse struct {
	Files []*AllocFileInfo `msg:",omitempty"`
}

// AllocFileStatResponse describes one file.
type AllocFileStatResponse struct {
	Info *AllocFileInfo `msg:",omitempty"`
}

// AllocFileReadResponse is a piece of a file; EOF is set when nothing follows.
type AllocFileReadResponse struct {
	Data []byte `msg:",omitempty"`
	EOF  bool   `msg:",omitempty"`
}

// NodeStatsResponse is what a node uses now.
type NodeStatsResponse struct {
	Stats *HostStats `msg:",omitempty"`
}
