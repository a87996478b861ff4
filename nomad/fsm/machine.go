package fsm

import (
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/shape"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Machine applies log entries to the state. It implements [raft.BatchingFSM].
type Machine struct {
	state    *state.Store
	registry *Registry
	log      hclog.Logger
	// Metrics records how long commands take; nil does not.
	Metrics *metrics.Recorder
	// Observer is notified of what the log does to the state; nil notifies nothing.
	Observer Observer
	// ready are commands that this server proposed, decoded, by the first byte of their entries.
	ready sync.Map

	mu     sync.Mutex
	err    error
	failed chan struct{}
}

// Observer is notified of what the log does to the state. Its methods are called in the order of the log and must not block.
type Observer interface {
	// Applied reports the changes of a committed command, which are read-only.
	Applied(kind Kind, index uint64, changes []state.Change)
	// Restored reports that a snapshot has replaced the state, which has the index.
	Restored(index uint64)
}

// NewMachine makes the machine of a state.
func NewMachine(s *state.Store, r *Registry, log hclog.Logger) *Machine {
	return &Machine{state: s, registry: r, log: log, failed: make(chan struct{})}
}

// Applied is the result for the proposer.
type Applied struct {
	Value any
	Err   error
}

// apply applies one entry. After the first entry that must not be skipped it applies nothing more.
func (m *Machine) apply(index uint64, b []byte) Applied {
	if err := m.Failure(); err != nil {
		return Applied{Err: err}
	}
	e, err := decodeEntry(b)
	if err != nil {
		return Applied{Err: m.fail(fmt.Errorf("log entry %d: %w", index, err))}
	}
	cmd := m.registry.New(e.kind)
	if cmd == nil && e.kind >= KindSkippable {
		m.log.Debug("skipped a command of an unknown kind", "kind", e.kind, "index", index)
		return Applied{Err: fault.New(fault.Unimplemented, "command kind %d is unknown", e.kind)}
	}
	if cmd == nil {
		return Applied{Err: m.fail(fault.New(fault.Unimplemented,
			"log entry %d has the unknown command kind %d: a newer version of the program wrote it", index, e.kind))}
	}
	if ready, ok := m.ready.LoadAndDelete(&b[0]); ok {
		return m.run(index, e, ready.(Command))
	}
	if err := decodeInto(cmd, e.body); err != nil {
		return Applied{Err: m.fail(fmt.Errorf("log entry %d: %w", index, err))}
	}
	// An earlier program may have written it: it changes nothing, and all servers do the same.
	if err := Sound(cmd); err != nil {
		return Applied{Err: fmt.Errorf("log entry %d, command kind %d: %w", index, e.kind, err)}
	}
	return m.run(index, e, cmd)
}

// Vet refuses an entry that could be written and not be read or applied, before it gets to the log: there it
// would stop every server. What was decoded is kept for the entry's apply, which comes with the same bytes on the
// server that proposed it; forget drops it where it does not come.
func (m *Machine) Vet(b []byte) (forget func(), err error) {
	if len(b) > EntryMax {
		return nil, fault.New(fault.TooLarge, "a log entry of %d bytes is over the limit of %d", len(b), EntryMax)
	}
	e, err := decodeEntry(b)
	if err != nil {
		return nil, err
	}
	cmd := m.registry.New(e.kind)
	if cmd == nil {
		return func() {}, nil // as a program of another version would write it
	}
	if err := decodeInto(cmd, e.body); err != nil {
		return nil, err
	}
	if err := Sound(cmd); err != nil {
		return nil, err
	}
	m.ready.Store(&b[0], cmd)
	return func() { m.ready.Delete(&b[0]) }, nil
}

// Sound refuses a command that its Apply is not written for: with a null in a list or a map, with lists without bound,
// or without one of its parts. A part that may be missing is a field with the tag `null:"allowed"`.
func Sound(cmd Command) error {
	if err := shape.Check(cmd); err != nil {
		return err
	}
	v := reflect.Indirect(reflect.ValueOf(cmd))
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.IsExported() && f.Type.Kind() == reflect.Pointer && v.Field(i).IsNil() && f.Tag.Get("null") != "allowed" {
			return fault.New(fault.Invalid, "%s.%s is missing", v.Type().Name(), f.Name)
		}
	}
	return nil
}

// decodeInto decodes the body of an entry.
func decodeInto(cmd Command, body []byte) error {
	rest, err := cmd.UnmarshalMsg(body)
	if err != nil {
		return fault.New(fault.Invalid, "decode command kind %d: %w", cmd.Kind(), err)
	}
	if len(rest) > 0 {
		return fault.New(fault.Invalid, "decode command kind %d: %d bytes left over", cmd.Kind(), len(rest))
	}
	return nil
}

func (m *Machine) run(index uint64, e entry, cmd Command) (done Applied) {
	if m.Metrics != nil {
		defer m.Metrics.Since(MetricName(e.kind), time.Now())
	}
	tx := m.state.Write(index, e.time)
	committed := false
	defer func() {
		if r := recover(); r != nil {
			done = Applied{Err: m.fail(fault.New(fault.Internal, "command kind %d at index %d panicked: %v", e.kind, index, r))}
		}
		if !committed {
			tx.Abort()
		}
	}()
	value, err := cmd.Apply(tx)
	if err != nil {
		return Applied{Err: err}
	}
	if err := MinVersion(tx); err != nil {
		return Applied{Err: m.fail(fmt.Errorf("log entry %d: %w", index, err))}
	}
	committed = true
	changes := tx.Commit()
	if m.Observer != nil {
		m.Observer.Applied(e.kind, index, changes)
	}
	return Applied{Value: value}
}

// fail stops the machine for good.
func (m *Machine) fail(err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.err = err
		m.log.Error("the state machine stopped; the server must end", "error", err)
		close(m.failed)
	}
	return m.err
}

// Failure is why the machine stopped, or nil.
func (m *Machine) Failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Failed is closed when the log holds something that this program must not skip; Failure returns the reason.
func (m *Machine) Failed() <-chan struct{} { return m.failed }
