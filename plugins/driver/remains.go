package driver

import (
	"context"
	"fmt"
	"strings"
)

// Remainer is a driver that knows which processes of a task are left.
type Remainer interface {
	// Remains lists the processes of a task that have not ended, also after the exit of its main process, and while it
	// is being started those that start it. The kernel ends no process that waits for storage, whatever signal it gets.
	Remains(id string) []Remain
}

// Finder is a driver that keeps traces of attempts whose handles were not stored.
type Finder interface {
	// Find returns the handle of an attempt, running or ended, of which there are traces. An error of class
	// fault.NotFound means that there are none, one of class fault.Unavailable that this cannot be determined now.
	Find(ctx context.Context, id string) (*Handle, error)
}

// Remain is a process of a task that is left.
type Remain struct {
	PID int
	// Name is the name of its program.
	Name string
	// State is the kernel's letter for its state: D is a wait that no signal ends.
	State byte
	// In is the kernel's function that it waits in; empty when that is not known.
	In string
}

// Stuck reports whether no signal ends the process.
func (r Remain) Stuck() bool { return r.State == 'D' }

// String describes the process for people.
func (r Remain) String() string {
	what := fmt.Sprintf("process %d (%s) ", r.PID, r.Name)
	if !r.Stuck() {
		return what + fmt.Sprintf("has not ended yet (%c state)", r.State)
	}
	if what += "is stuck in the kernel (D state"; r.In != "" {
		what += ", in " + r.In
	}
	return what + ")"
}

// Wait describes for people where the process waits.
func (r Remain) Wait() string {
	where := fmt.Sprintf("process %d (%s) waits (%c state", r.PID, r.Name, r.State)
	if r.In != "" {
		where += ", in " + r.In
	}
	return where + ")"
}

// Explain describes to users why processes are left and what ends them.
func Explain(left []Remain) string {
	var out []string
	for i, r := range left {
		if i == 3 {
			out = append(out, fmt.Sprintf("%d more", len(left)-i))
			break
		}
		out = append(out, r.String())
	}
	return strings.Join(out, ", ") +
		": not even SIGKILL ends it before its storage answers; bring the storage back, or restart the node. Its volumes stay claimed until then, " +
		"for it may still write: volume detach -force gives them away all the same"
}
