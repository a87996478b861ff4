// Package script is what the tests and the faulty driver say to each other through files of the
// driver's state directory: which calls go wrong, and which calls there were.
package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Fault makes calls go wrong as long as it is in the script.
type Fault struct {
	// RPC is the method, such as NodeStageVolume; Node and Volume narrow it down unless empty, and To the
	// node that a controller call names.
	RPC, Node, Volume, To string
	// Code is the gRPC code of the answer; 0 lets the driver answer.
	Code int
	// Text is the message of the answer.
	Text string
	// Delay comes before all else.
	Delay time.Duration
	// Hang answers nothing until the caller gives up or the fault is gone.
	Hang bool
	// Lost lets the driver do the work before the call hangs or Code is answered.
	Lost bool
}

// Event is the begin or the end of a call.
type Event struct {
	ID        string
	Node, RPC string
	Volume    string
	// To is the node that a controller call names.
	To   string
	At   time.Time
	Done bool
	Code int
	Text string
}

// Call is one call that the driver got.
type Call struct {
	Event
	// Ended is zero for a call in flight.
	Ended time.Time
}

func faultsFile(dir string) string { return filepath.Join(dir, "faults.json") }

// CallsFile is the log of calls.
func CallsFile(dir string) string { return filepath.Join(dir, "calls.log") }

// DownFile keeps the driver of a node from serving while it exists.
func DownFile(dir, node string) string { return filepath.Join(dir, "down-"+node) }

// Set replaces the script.
func Set(dir string, faults ...Fault) error {
	raw, err := json.Marshal(faults)
	if err != nil {
		return fmt.Errorf("encode script: %w", err)
	}
	next := faultsFile(dir) + ".new"
	if err := os.WriteFile(next, raw, 0o600); err != nil {
		return fmt.Errorf("write script: %w", err)
	}
	return os.Rename(next, faultsFile(dir))
}

// Find answers the first fault for a call, or nil.
func Find(dir string, call Event) (*Fault, error) {
	raw, err := os.ReadFile(faultsFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}
	var faults []Fault
	if err := json.Unmarshal(raw, &faults); err != nil {
		return nil, fmt.Errorf("decode script: %w", err)
	}
	for _, f := range faults {
		if f.RPC == call.RPC && (f.Node == "" || f.Node == call.Node) && (f.Volume == "" || f.Volume == call.Volume) && (f.To == "" || f.To == call.To) {
			return &f, nil
		}
	}
	return nil, nil
}

// Append writes an event into the log of calls.
func Append(dir string, e Event) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	f, err := os.OpenFile(CallsFile(dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	_, err = f.Write(append(raw, '\n'))
	return errors.Join(err, f.Close())
}

// Calls reads the log of calls, in the order of their begins.
func Calls(dir string) ([]Call, error) {
	raw, err := os.ReadFile(CallsFile(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read calls: %w", err)
	}
	var calls []Call
	byID := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		var e Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, fmt.Errorf("call log: %w", err)
		}
		if !e.Done {
			byID[e.ID] = len(calls)
			calls = append(calls, Call{Event: e})
			continue
		}
		if i, ok := byID[e.ID]; ok {
			calls[i].Ended, calls[i].Code, calls[i].Text = e.At, e.Code, e.Text
		}
	}
	return calls, nil
}

// Overlaps lists pairs of calls for one volume on one node that were in flight at once.
func Overlaps(calls []Call) []string {
	var found []string
	for i, a := range calls {
		for _, b := range calls[i+1:] {
			if a.Volume == "" || a.Volume != b.Volume || place(a) != place(b) || a.Ended.IsZero() {
				continue
			}
			if b.At.Before(a.Ended) {
				found = append(found, fmt.Sprintf("%s and %s of %s on %s", a.RPC, b.RPC, a.Volume, place(a)))
			}
		}
	}
	return slices.Compact(found)
}

// place is where a call has its effect: a controller call at the controller, for a node.
func place(c Call) string {
	if c.To != "" {
		return "controller for " + c.To
	}
	return c.Node
}
