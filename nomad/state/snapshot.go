package state

import (
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/mask"
)

// A snapshot is
//
//	magic | index | for each table: name, index, count, rows | empty name | CRC32C
//
// with unsigned varints for numbers and lengths. Jobs that allocations share are stored once, in the
// part named by sharedJobs; an allocation's row begins with the place of its job there.
const (
	snapshotMagic = "open-nomad state 1\n"
	sharedJobs    = "alloc jobs"
	nameMax       = 64
	rowMax        = 256 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Dump writes all rows that the transaction sees.
func (t *Txn) Dump(w io.Writer) error { return t.dump(w, false) }

// DumpRedacted writes them without secrets.
func (t *Txn) DumpRedacted(w io.Writer) error { return t.dump(w, true) }

func (t *Txn) dump(w io.Writer, redact bool) error {
	d := &dump{w: w, sum: crc32.New(castagnoli), places: map[*api.Job]uint64{}, redact: redact, lanes: make([]lane, runtime.GOMAXPROCS(0))}
	d.raw([]byte(snapshotMagic))
	d.number(t.mem.index)
	d.jobs(t)
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		d.table(t, name)
	}
	d.text("")
	sum := d.sum.Sum(nil)
	d.raw(sum)
	return d.err
}

type dump struct {
	w      io.Writer
	sum    hash.Hash32
	places map[*api.Job]uint64
	lanes  []lane
	err    error
	// redact leaves out secrets.
	redact bool
}

// redacted returns a row without its secrets. Jobs stay as they were registered: the places of shared jobs are found by pointer.
func redacted(row any) any {
	switch row.(type) {
	case *api.Job, *api.Allocation, *submission:
		return row
	}
	return mask.RedactedValue(row)
}

func (d *dump) raw(b []byte) {
	if d.err != nil {
		return
	}
	_, _ = d.sum.Write(b)
	_, d.err = d.w.Write(b)
}

func (d *dump) number(n uint64) {
	var b [binary.MaxVarintLen64]byte
	d.raw(b[:binary.PutUvarint(b[:], n)])
}

func (d *dump) text(s string) {
	d.number(uint64(len(s)))
	d.raw([]byte(s))
}

// jobs writes each job that some allocation points at once.
func (d *dump) jobs(t *Txn) {
	var shared []any
	for a := range t.Allocs(api.AllNamespaces) {
		if _, known := d.places[a.Job]; a.Job != nil && !known {
			shared = append(shared, a.Job)
			d.places[a.Job] = uint64(len(shared))
		}
	}
	d.text(sharedJobs)
	d.number(0)
	d.number(uint64(len(shared)))
	for wave := range slices.Chunk(shared, chunkRows*len(d.lanes)) {
		d.write(wave)
	}
}

// table writes one table. It leaves out a table that was never written, so that servers of a version that does
// not know the table can read the snapshot.
func (d *dump) table(t *Txn, name string) {
	var rows []any
	t.mem.from(tables[name], "", func(row any) bool {
		rows = append(rows, row)
		return true
	})
	if len(rows) == 0 && t.mem.changed[tables[name].number] == 0 {
		return
	}
	d.text(name)
	d.number(t.TableIndex(name))
	d.number(uint64(len(rows)))
	for wave := range slices.Chunk(rows, chunkRows*len(d.lanes)) {
		d.write(wave)
	}
}

// chunkRows is how many rows one processor encodes or decodes at a time.
const chunkRows = 512

// lane is what one processor works with.
type lane struct {
	buf, row []byte
	err      error
}

// write encodes rows on all processors and writes them in order.
func (d *dump) write(rows []any) {
	var busy sync.WaitGroup
	used := 0
	for chunk := range slices.Chunk(rows, chunkRows) {
		l := &d.lanes[used]
		used++
		busy.Go(func() { l.encode(chunk, d) })
	}
	busy.Wait()
	for i := range d.lanes[:used] {
		if d.err == nil {
			d.err = d.lanes[i].err
		}
		d.raw(d.lanes[i].buf)
	}
}

func (l *lane) encode(rows []any, d *dump) {
	l.buf = l.buf[:0]
	var bare api.Allocation
	for _, row := range rows {
		if d.redact {
			row = redacted(row)
		}
		l.row = l.row[:0]
		if a, isAlloc := row.(*api.Allocation); isAlloc {
			bare = *a
			bare.Job = nil
			l.row = binary.AppendUvarint(l.row, d.places[a.Job])
			row = &bare
		}
		m, ok := row.(msgp.Marshaler)
		if !ok {
			l.err = fault.New(fault.Internal, "row %T has no msgp encoding", row)
			return
		}
		var err error
		if l.row, err = m.MarshalMsg(l.row); err != nil {
			l.err = fmt.Errorf("encode row %T: %w", row, err)
			return
		}
		if len(l.row) > rowMax { // no snapshot is better than one that cannot be read: the log stays
			l.err = fault.New(fault.TooLarge, "a row %T has %d bytes, at most %d can be read back", row, len(l.row), rowMax)
			return
		}
		l.buf = append(binary.AppendUvarint(l.buf, uint64(len(l.row))), l.row...)
	}
}
