package events

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Bounds of the buffer.
const (
	// followedIndexes is how many indexes are kept while there are subscribers: a configured buffer of 100 indexes can be
	// passed within milliseconds.
	followedIndexes = 8192
	// followedFor is how long after its last call a subscriber counts as one.
	followedFor = time.Minute
	// changesMax and bytesMax bound the changes and the encoded events of all indexes but the newest.
	changesMax = 100_000
	bytesMax   = 128 << 20
	// pieceBytes is how much one response has, unless a single event is larger.
	pieceBytes = 1 << 20
)

// ErrBehind is returned to subscribers whose next events are no longer in the buffer.
var ErrBehind = fault.New(fault.Conflict, "the subscriber is too slow: the server has dropped events that it has not read; subscribe again, with a smaller set of topics or a larger event_buffer_size")

// ErrRestored is returned to subscribers whose server restored a snapshot.
var ErrRestored = fault.New(fault.Conflict, "the server restored a snapshot: read the objects again and subscribe again")

// batch is what one command changed.
type batch struct {
	index uint64
	// kind is the type of its events; empty where only rows with types of their own cause events.
	kind    string
	changes []state.Change
	// tx is the state at the index, where events follow from it.
	tx *state.Txn

	build  sync.Once
	events []*event
	encode sync.Once
	// line has all events as JSON; event i is between begin[i] and ends[i].
	line        []byte
	begin, ends []int
	// bytes is the length of line that the buffer counts; negative when the batch was dropped.
	bytes atomic.Int64
}

// Buffer keeps the changes of the newest indexes.
type Buffer struct {
	state *state.Store
	size  int
	// read is when a subscriber last read, in Unix nanoseconds.
	read  atomic.Int64
	bytes atomic.Int64

	mu      sync.Mutex
	batches []*batch
	changes int
	// latest is the newest applied index, and dropped the newest whose events may be missing.
	latest, dropped uint64
	line            uint64
	// wake is closed by the next batch; nil when no subscriber waits.
	wake chan struct{}
}

// NewBuffer makes a buffer of a number of indexes.
func NewBuffer(s *state.Store, size int) *Buffer {
	return &Buffer{state: s, size: size, line: rand.Uint64()}
}

// Applied adds the changes of a committed command. It is called in the order of the log and right after the commit.
func (b *Buffer) Applied(kind fsm.Kind, index uint64, changes []state.Change) {
	n := &batch{index: index, kind: types[kind], changes: changes}
	keep := false
	for _, c := range changes {
		if relevant(c.Table) {
			keep = true
			if needsState(c) {
				n.tx = b.state.Read()
				break
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.latest = index
	if !keep {
		return
	}
	b.batches = append(b.batches, n)
	b.changes += len(changes)
	b.trim()
	if b.wake != nil {
		close(b.wake)
		b.wake = nil
	}
}

// trim drops the oldest batches over the bounds.
func (b *Buffer) trim() {
	size := b.size
	if time.Now().UnixNano()-b.read.Load() < int64(followedFor) {
		size = max(size, followedIndexes)
	}
	drop := 0
	for left := len(b.batches); left > 1 && (left > size || b.changes > changesMax || b.bytes.Load() > bytesMax); left-- {
		old := b.batches[drop]
		b.changes -= len(old.changes)
		b.forget(old)
		b.dropped = old.index
		b.batches[drop] = nil
		drop++
	}
	b.batches = b.batches[drop:]
}

// forget gives back the bytes of a dropped batch.
func (b *Buffer) forget(old *batch) { b.bytes.Add(-old.bytes.Swap(-1)) }

// Restored drops everything: the state is another one, at an index. Subscribers are closed.
func (b *Buffer) Restored(index uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, old := range b.batches {
		b.forget(old)
	}
	b.batches, b.changes, b.latest, b.dropped, b.line = nil, 0, index, index, rand.Uint64()
	if b.wake != nil {
		close(b.wake)
		b.wake = nil
	}
}

// start returns the cursor of a new subscription from an index on; 0 is the next change. Indexes older than the buffer begin
// with the oldest that it has.
func (b *Buffer) start(server string, index uint64) api.EventCursor {
	b.read.Store(time.Now().UnixNano())
	b.mu.Lock()
	defer b.mu.Unlock()
	next := max(index, b.dropped+1)
	if index == 0 {
		next = b.latest + 1
	}
	return api.EventCursor{Server: server, Line: b.line, Next: next}
}

// batchesMax bounds the batches that are filtered at a time.
const batchesMax = 512

// after returns the batches at and after the cursor, at most batchesMax. Without any it returns a channel that is
// closed when there is one. A cursor of another server is continued by its index.
func (b *Buffer) after(server string, at api.EventCursor) (found []*batch, line uint64, more <-chan struct{}, err error) {
	b.read.Store(time.Now().UnixNano())
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case at.Server == server && at.Line != b.line:
		return nil, 0, nil, ErrRestored
	case at.Next <= b.dropped:
		return nil, 0, nil, ErrBehind
	}
	i, _ := slices.BinarySearchFunc(b.batches, at.Next, func(x *batch, next uint64) int {
		if x.index < next {
			return -1
		}
		return 1
	})
	if i < len(b.batches) {
		return slices.Clone(b.batches[i:min(i+batchesMax, len(b.batches))]), b.line, nil, nil
	}
	if b.wake == nil {
		b.wake = make(chan struct{})
	}
	return nil, b.line, b.wake, nil
}

// collect returns the parts of the lines that a subscriber reads of batches, and the place after them.
func (b *Buffer) collect(found []*batch, f *filter, at api.EventCursor) ([][]byte, api.EventCursor) {
	var data [][]byte
	size := 0
	for _, n := range found {
		if n.index != at.Next {
			at.Next, at.Event = n.index, 0
		}
		n.build.Do(func() { n.events = build(n) })
		var full bool
		if data, full = b.lineOf(n, f, &at, data, &size); full {
			return data, at
		}
		at.Next, at.Event = n.index+1, 0
		if size >= pieceBytes {
			return data, at
		}
	}
	return data, at
}

// lineOf adds the line of one batch, from the cursor on. full means that the rest of the line is for another response.
// Adjacent events are one part.
func (b *Buffer) lineOf(n *batch, f *filter, at *api.EventCursor, data [][]byte, size *int) (_ [][]byte, full bool) {
	begun := at.Event > 0
	add := func(part []byte) {
		data = append(data, part)
		*size += len(part)
	}
	for i := at.Event; i < len(n.events); i++ {
		if !f.wants(n.events[i]) {
			continue
		}
		if *size >= pieceBytes && (begun || len(data) > 0) {
			if begun {
				at.Event = i
			}
			return data, true
		}
		b.encode(n)
		first := i
		for i+1 < len(n.events) && *size+n.ends[i]-n.begin[first] < pieceBytes && f.wants(n.events[i+1]) {
			i++
		}
		if begun {
			add([]byte{','})
		} else {
			add(append(strconv.AppendUint([]byte(`{"Index":`), n.index, 10), `,"Events":[`...))
		}
		begun = true
		add(n.line[n.begin[first]:n.ends[i]])
	}
	if begun {
		add([]byte("]}\n"))
	}
	return data, false
}

// encode encodes the events of a batch once for all subscribers.
func (b *Buffer) encode(n *batch) {
	n.encode.Do(func() {
		n.line, n.begin, n.ends = encoded(n.events)
		b.bytes.Add(int64(len(n.line)))
		if !n.bytes.CompareAndSwap(0, int64(len(n.line))) { // it was dropped in the meantime
			b.bytes.Add(-int64(len(n.line)))
		}
	})
}

// encoded returns the events as JSON with commas between them, and where each begins and ends.
func encoded(events []*event) (line []byte, begin, ends []int) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	for i, ev := range events {
		if i > 0 {
			buf.WriteByte(',')
		}
		begin = append(begin, buf.Len())
		if err := e.Encode(ev); err != nil {
			panic(err) // plain data
		}
		buf.Truncate(buf.Len() - 1) // the line feed of the encoder
		ends = append(ends, buf.Len())
	}
	return buf.Bytes(), begin, ends
}
