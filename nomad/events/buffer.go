package events

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/acl/policy"
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
	pieceBytes = 256 << 10
	// gather is how long events wait for others before subscribers may read them: it bounds how often subscribers wake.
	gather = 20 * time.Millisecond
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
	// line is the line of all events as JSON; event i is between begin[i] and ends[i], a comma is before each but the first.
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
	// shown is the newest index that subscribers may read. It follows latest every [gather], for all subscribers at once.
	shown uint64
	line  uint64
	// wake is closed when shown moves; nil when no subscriber waits. armed is set while a timer is about to move it.
	wake  chan struct{}
	armed bool
	// pieces are the newest that were collected, until shown moves.
	pieces map[place]*piece
}

// place is what decides on a piece: the rights and the filter of the subscriber, its cursor, and the newest index collected.
type place struct {
	rights            *policy.Rights
	topics, namespace string
	at                api.EventCursor
	last              uint64
}

// piece is what all subscribers at one place read.
type piece struct {
	collect sync.Once
	data    [][]byte
	next    api.EventCursor
}

// piecesMax bounds the pieces that are kept.
const piecesMax = 32

// NewBuffer makes a buffer of a number of indexes.
func NewBuffer(s *state.Store, size int) *Buffer {
	return &Buffer{state: s, size: size, line: rand.Uint64(), pieces: map[place]*piece{}}
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
		b.arm()
	}
}

// arm starts the timer that moves shown, unless it runs.
func (b *Buffer) arm() {
	if !b.armed {
		b.armed = true
		time.AfterFunc(gather, b.show)
	}
}

// show lets subscribers read all batches and wakes those that wait.
func (b *Buffer) show() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed = false
	b.release()
}

func (b *Buffer) release() {
	b.shown = b.latest
	b.pieces = map[place]*piece{}
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
	b.release()
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

// after returns the batches at and after the cursor that subscribers may read, at most batchesMax. Without any it returns a
// channel that is closed when there may be one. A cursor of another server is continued by its index.
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
	first, end := b.position(at.Next), b.position(b.shown+1)
	if first < end {
		return slices.Clone(b.batches[first:min(first+batchesMax, end)]), b.line, nil, nil
	}
	if b.wake == nil {
		b.wake = make(chan struct{})
	}
	if first < len(b.batches) {
		b.arm()
	}
	return nil, b.line, b.wake, nil
}

// position returns where the first batch at or after an index is.
func (b *Buffer) position(index uint64) int {
	i, _ := slices.BinarySearchFunc(b.batches, index, func(x *batch, index uint64) int { return cmp.Compare(x.index, index) })
	return i
}

// shared is collect for subscribers at the same place: it runs once, and its parts are joined.
func (b *Buffer) shared(found []*batch, f *filter, at api.EventCursor) ([][]byte, api.EventCursor) {
	of := place{rights: f.rights, topics: f.text, namespace: f.namespace, at: at, last: found[len(found)-1].index}
	b.mu.Lock()
	p := b.pieces[of]
	if p == nil && len(b.pieces) < piecesMax {
		p = &piece{}
		b.pieces[of] = p
	}
	b.mu.Unlock()
	if p == nil {
		return b.collect(found, f, at)
	}
	p.collect.Do(func() {
		if p.data, p.next = b.collect(found, f, at); len(p.data) > 1 {
			p.data = [][]byte{bytes.Join(p.data, nil)}
		}
	})
	return p.data, p.next
}

// collect returns the parts of the lines that a subscriber reads of batches, and the place after them.
func (b *Buffer) collect(found []*batch, f *filter, at api.EventCursor) ([][]byte, api.EventCursor) {
	data := make([][]byte, 0, len(found))
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

// tail ends a line.
var tail = []byte("]}\n")

// lineOf adds the line of one batch, from the cursor on. full means that the rest of the line is for another response.
// Adjacent events are one part, with the head and the tail of the line where these are adjacent too.
func (b *Buffer) lineOf(n *batch, f *filter, at *api.EventCursor, data [][]byte, size *int) (_ [][]byte, full bool) {
	begun := at.Event > 0
	from, to := 0, 0 // the part of the line that is not yet in data
	add := func(part []byte) {
		if len(part) > 0 {
			data = append(data, part)
		}
	}
	for i := at.Event; i < len(n.events); i++ {
		if !f.wants(n.events[i]) {
			continue
		}
		if *size >= pieceBytes && (begun || len(data) > 0) {
			add(n.line[from:to])
			if begun {
				at.Event = i
			}
			return data, true
		}
		b.encode(n)
		begin := n.begin[i]
		switch {
		case begun:
			begin-- // the comma
		case i == 0:
			begin = 0
		default:
			add(n.line[:n.begin[0]])
		}
		begun = true
		if begin != to || to == 0 {
			add(n.line[from:to])
			from = begin
		}
		to = n.ends[i]
		*size += to - begin
	}
	switch {
	case to > 0 && to == n.ends[len(n.ends)-1]:
		add(n.line[from:])
	case begun:
		add(n.line[from:to])
		add(tail)
	}
	return data, false
}

// encode encodes the events of a batch once for all subscribers.
func (b *Buffer) encode(n *batch) {
	n.encode.Do(func() {
		n.line, n.begin, n.ends = encoded(n.index, n.events)
		b.bytes.Add(int64(len(n.line)))
		if !n.bytes.CompareAndSwap(0, int64(len(n.line))) { // it was dropped in the meantime
			b.bytes.Add(-int64(len(n.line)))
		}
	})
}

// encoded returns the line of all events, and where each event begins and ends.
func encoded(index uint64, events []*event) (line []byte, begin, ends []int) {
	var buf bytes.Buffer
	buf.WriteString(`{"Index":` + strconv.FormatUint(index, 10) + `,"Events":[`)
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
	buf.Write(tail)
	return buf.Bytes(), begin, ends
}
