// Package script is the protocol of the tests and the faulty driver, in files of the
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
	// Parameter is one of a creation, as key=value.
	Parameter string
	// Code is the gRPC code of the reply; 0 forwards the call to the driver.
	Code int
	// Text is the message of the reply.
	Text string
	// Delay comes before all else.
	Delay time.Duration
	// Hang sends no reply until the caller gives up or the fault is removed.
	Hang bool
	// Lost lets the driver do the work before the call hangs or Code is answered.
	Lost bool
	// Times is how many calls go wrong so, after which the next fault that fits is taken; 0 means all.
	Times int
	// Since is when the script was set.
	Since time.Time
}

func (f *Fault) fits(e Event) bool {
	return f.RPC == e.RPC && (f.Node == "" || f.Node == e.Node) && (f.Volume == "" || f.Volume == e.Volume) && (f.To == "" || f.To == e.To) &&
		(f.Parameter == "" || slices.Contains(e.Parameters, f.Parameter))
}

// Anywhere stands for the node of controller calls that name none.
const Anywhere = "any"

// Event is the begin or the end of a call.
type Event struct {
	ID        string
	Node, RPC string
	Volume    string
	// To is the node that a controller call names.
	To string
	// Parameters are those of a creation, each as key=value.
	Parameters []string
	At         time.Time
	Done       bool
	Code       int
	Text       string
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
	for i := range faults {
		faults[i].Since = time.Now()
	}
	raw, err := json.Marshal(faults)
	if err != nil {
		return fmt.Errorf("encode script: %w", err)
	}
	return replace(faultsFile(dir), raw)
}

func replace(file string, raw []byte) error {
	next := file + ".new"
	if err := os.WriteFile(next, raw, 0o600); err != nil {
		return fmt.Errorf("write script: %w", err)
	}
	return os.Rename(next, file)
}

// PasswordKey is the key of the secret that the driver asks for; see [Require].
const PasswordKey = "password"

func passwordFile(dir string) string { return filepath.Join(dir, "password") }

// Require makes the driver refuse calls whose secrets have another password; empty lets all in.
func Require(dir, password string) error { return replace(passwordFile(dir), []byte(password)) }

// Password is the last argument of Require.
func Password(dir string) (string, error) {
	raw, err := os.ReadFile(passwordFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return string(raw), err
}

// Find returns the first fault for a call, or nil.
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
		if !f.fits(call) {
			continue
		}
		if f.Times > 0 {
			n, err := begun(dir, call, f.Since)
			if err != nil {
				return nil, err
			}
			if n -= passed(faults, f, call); n >= f.Times {
				continue
			}
		}
		return &f, nil
	}
	return nil, nil
}

// begun counts the calls of the same kind that began earlier, but after the script was set.
func begun(dir string, call Event, since time.Time) (int, error) {
	all, err := Calls(dir)
	n := 0
	for _, c := range all {
		if c.ID != call.ID && c.RPC == call.RPC && c.Volume == call.Volume && c.To == call.To && !c.At.Before(since) && c.At.Before(call.At) {
			n++
		}
	}
	return n, err
}

// passed is how many calls went wrong by the lines before f.
func passed(faults []Fault, f Fault, call Event) (n int) {
	for _, before := range faults {
		if before == f {
			break
		}
		if before.fits(call) {
			n += before.Times
		}
	}
	return n
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
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
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
