package store

import (
	"fmt"
	"strings"

	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Buckets of the records of allocations.
const (
	bucketAllocs = "allocs"
	bucketSteps  = "steps"
	bucketTasks  = "tasks"
)

// schema is the first byte of every typed value.
const schema = 1

// AllocRecord is what the node remembers of one allocation.
type AllocRecord struct {
	// Alloc is the allocation as the servers last sent it, with the node's last client half.
	Alloc *api.Allocation
	// Steps are the marks of the step journal.
	Steps map[string]string
	Tasks map[string]*TaskRecord
}

// Allocs returns the records of all allocations. Records that cannot be read are skipped and logged.
func (db *DB) Allocs() (map[string]*AllocRecord, error) {
	raw, err := db.all(bucketAllocs, "")
	if err != nil {
		return nil, fmt.Errorf("read allocations: %w", err)
	}
	out := make(map[string]*AllocRecord, len(raw))
	for id, b := range raw {
		alloc := new(api.Allocation)
		if err := decode(b, alloc); err != nil {
			db.log.Error("skip unreadable record of allocation", "alloc_id", id, "error", err)
			continue
		}
		out[id] = &AllocRecord{Alloc: alloc, Steps: map[string]string{}, Tasks: map[string]*TaskRecord{}}
	}
	return out, db.readParts(out)
}

func (db *DB) readParts(out map[string]*AllocRecord) error {
	steps, err := db.all(bucketSteps, "")
	if err != nil {
		return fmt.Errorf("read step journal: %w", err)
	}
	for key, mark := range steps {
		if id, step, ok := strings.Cut(key, "/"); ok && out[id] != nil {
			out[id].Steps[step] = string(mark)
		}
	}
	tasks, err := db.all(bucketTasks, "")
	if err != nil {
		return fmt.Errorf("read tasks: %w", err)
	}
	for key, b := range tasks {
		id, task, ok := strings.Cut(key, "/")
		if !ok || out[id] == nil {
			continue
		}
		r := new(TaskRecord)
		if err := decode(b, r); err != nil {
			db.log.Error("skip unreadable record of task", "alloc_id", id, "task", task, "error", err)
			continue
		}
		out[id].Tasks[task] = r
	}
	return nil
}

// PutAlloc remembers an allocation; it becomes durable soon.
func (db *DB) PutAlloc(a *api.Allocation) error {
	b, err := encode(a)
	if err != nil {
		return fmt.Errorf("encode allocation %s: %w", a.ID, err)
	}
	return db.write(map[slot][]byte{{bucketAllocs, a.ID}: b}, pace{kept: true})
}

// DeleteAlloc forgets an allocation with its steps and tasks, in one transaction.
func (db *DB) DeleteAlloc(id string) error {
	gone := map[slot][]byte{{bucketAllocs, id}: nil}
	for _, bucket := range []string{bucketSteps, bucketTasks} {
		keys, err := db.all(bucket, id+"/")
		if err != nil {
			return fmt.Errorf("forget allocation %s: %w", id, err)
		}
		for key := range keys {
			gone[slot{bucket, key}] = nil
		}
	}
	return db.write(gone, pace{durable: true})
}

// PutTask stores a task; with durable it returns when the record cannot be lost any more. A record that could not be
// written is written when the disk works again, whatever error the caller received.
func (db *DB) PutTask(allocID, task string, r *TaskRecord, durable bool) error {
	b, err := encode(r)
	if err != nil {
		return fmt.Errorf("encode task %s of allocation %s: %w", task, allocID, err)
	}
	return db.write(map[slot][]byte{{bucketTasks, allocID + "/" + task}: b}, pace{durable: durable, kept: true})
}

// Journal is the step journal of one allocation.
type Journal struct {
	db      *DB
	allocID string
}

// Journal returns the step journal of an allocation.
func (db *DB) Journal(allocID string) Journal { return Journal{db, allocID} }

// Marks reads the journal.
func (j Journal) Marks() (map[string]string, error) {
	raw, err := j.db.all(bucketSteps, j.allocID+"/")
	if err != nil {
		return nil, fmt.Errorf("read steps of allocation %s: %w", j.allocID, err)
	}
	out := make(map[string]string, len(raw))
	for key, mark := range raw {
		out[strings.TrimPrefix(key, j.allocID+"/")] = string(mark)
	}
	return out, nil
}

// Mark writes the mark of one step. It becomes durable with the next commit: a crash before that loses
// no effect, since services with effects outside the process record their own intents durably.
func (j Journal) Mark(step, mark string) error {
	return j.db.write(map[slot][]byte{{bucketSteps, j.allocID + "/" + step}: []byte(mark)}, pace{kept: true})
}

func encode(v msgp.Marshaler) ([]byte, error) { return v.MarshalMsg([]byte{schema}) }

func decode(b []byte, v msgp.Unmarshaler) error {
	if len(b) == 0 || b[0] != schema {
		return fault.New(fault.Invalid, "unknown schema of stored %T", v)
	}
	if _, err := v.UnmarshalMsg(b[1:]); err != nil {
		return fmt.Errorf("decode stored %T: %w", v, err)
	}
	return nil
}
