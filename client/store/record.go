package store

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
)

//msgp:limit arrays:1000000 maps:1000000

// TaskRecord is what the node remembers of one task.
type TaskRecord struct {
	State *api.TaskState `msg:",omitempty"`
	// Attempt counts the starts; it is part of the driver's task id.
	Attempt uint64 `msg:",omitempty"`
	// Handle is the driver's handle of the running attempt as JSON; empty when none runs.
	Handle []byte `msg:",omitempty"`
	// Restarts counts the restarts in the window of the restart policy that began at WindowStart.
	Restarts    int       `msg:",omitempty"`
	WindowStart time.Time `msg:",omitempty"`
	// Fetched is set when the artifacts of the task are in its directory.
	Fetched bool `msg:",omitempty"`
	// Pause is what a user wants of a task with a schedule: pause or run; empty when its schedule decides.
	Pause string `msg:",omitempty"`
}
