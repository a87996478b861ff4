package state

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/share"
)

// Restore replaces all rows by those of a snapshot: readers see the old state or the new one. Watchers
// wake, feeds resync. When it fails, or a check refuses what was read, the old state stays.
func (s *Store) Restore(r io.Reader, checks ...func(*Txn) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	l := &load{r: bufio.NewReaderSize(r, 1<<16), lanes: make([]reading, runtime.GOMAXPROCS(0)), tx: &Txn{store: s, mem: s.db.begin(newDB(), 0)}}
	if err := l.all(); err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	for _, check := range checks {
		if err := check(l.tx); err != nil {
			return err
		}
	}
	l.tx.mem.commit()
	s.watch.reset(l.index)
	s.feeds.publish(Batch{Index: l.index, Resync: true})
	return nil
}

type load struct {
	r     *bufio.Reader
	sum   uint32
	one   [1]byte
	tx    *Txn
	index uint64
	jobs  []*api.Job
	lanes []reading
	small []byte
}

// reading is what one processor decodes at a time: rows one after the other, and where each ends.
type reading struct {
	buf   []byte
	ends  []int
	rows  []any
	alike share.Pool
	err   error
}

func (l *load) all() error {
	magic, err := l.append(nil, uint64(len(snapshotMagic)))
	if err != nil {
		return err
	}
	if string(magic) != snapshotMagic {
		return fault.New(fault.Invalid, "this is not a snapshot of state version 1")
	}
	if l.index, err = l.number(); err != nil {
		return err
	}
	l.tx.mem.index, l.tx.mem.line = l.index, rand.Uint64()
	clear(l.tx.mem.changed)
	l.tx.mem.variables = nil
	for {
		more, err := l.table()
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	return l.checkSum()
}

func (l *load) checkSum() error {
	want := l.sum
	var b [crc32.Size]byte
	if _, err := io.ReadFull(l.r, b[:]); err != nil {
		return err
	}
	if binary.BigEndian.Uint32(b[:]) != want {
		return fault.New(fault.Invalid, "the checksum does not match")
	}
	return nil
}

func (l *load) table() (more bool, err error) {
	name, err := l.text()
	if err != nil || name == "" {
		return false, err
	}
	index, err := l.number()
	if err != nil {
		return false, err
	}
	count, err := l.number()
	if err != nil {
		return false, err
	}
	decode, err := l.decoder(name, index)
	if err != nil {
		return false, err
	}
	var rows []any
	for count > 0 {
		n, err := l.wave(count, decode)
		if err != nil {
			return false, fmt.Errorf("table %s: %w", name, err)
		}
		count -= n
		for i := range l.lanes {
			rows = append(rows, l.lanes[i].rows...)
		}
	}
	l.keep(name, rows)
	return true, nil
}

// keep takes over the rows of a table.
func (l *load) keep(name string, rows []any) {
	if name != sharedJobs {
		l.tx.mem.fill(tables[name], rows)
		for _, row := range rows {
			l.tx.remember(row)
			if r, ok := row.(*api.VariableRow); ok {
				l.tx.mem.addVariables(r.Namespace, int64(len(r.Data)))
			}
		}
		return
	}
	for _, row := range rows {
		if j, ok := row.(*api.Job); ok {
			l.jobs = append(l.jobs, j)
		}
	}
}

// wave reads a number of rows and decodes them on all processors.
func (l *load) wave(count uint64, decode func(*reading, []byte) (any, error)) (read uint64, err error) {
	var busy sync.WaitGroup
	defer busy.Wait()
	for i := range l.lanes {
		lane := &l.lanes[i]
		lane.buf, lane.ends, lane.rows, lane.err = lane.buf[:0], lane.ends[:0], lane.rows[:0], nil
		for ; read < count && len(lane.ends) < chunkRows; read++ {
			if err := l.frame(lane); err != nil {
				return read, err
			}
		}
		busy.Go(func() { lane.decode(decode) })
	}
	busy.Wait()
	for i := range l.lanes {
		if err := l.lanes[i].err; err != nil {
			return read, err
		}
	}
	return read, nil
}

func (r *reading) decode(one func(*reading, []byte) (any, error)) {
	begin := 0
	for _, end := range r.ends {
		row, err := one(r, r.buf[begin:end])
		if err != nil {
			r.err = err
			return
		}
		r.rows = append(r.rows, row)
		begin = end
	}
}

// decoder returns the function that decodes rows of the table. The function runs on all processors.
func (l *load) decoder(name string, index uint64) (func(*reading, []byte) (any, error), error) {
	if name == sharedJobs {
		return func(_ *reading, b []byte) (any, error) {
			j := &api.Job{}
			return j, unmarshal(j, b)
		}, nil
	}
	t, known := tables[name]
	if !known {
		return nil, fault.New(fault.Invalid, "unknown table %q: a newer version of the program wrote it", name)
	}
	l.tx.mem.changed[t.number] = index
	if name == TableAllocs {
		return l.alloc, nil
	}
	return func(_ *reading, b []byte) (any, error) {
		row := t.fresh()
		return row, unmarshal(row, b)
	}, nil
}

func (l *load) alloc(r *reading, b []byte) (any, error) {
	place, n := binary.Uvarint(b)
	if n <= 0 || place > uint64(len(l.jobs)) {
		return nil, fault.New(fault.Invalid, "an allocation refers to job %d of %d", place, len(l.jobs))
	}
	a := &api.Allocation{}
	if err := unmarshal(a, b[n:]); err != nil {
		return nil, err
	}
	r.alike.Alloc(a)
	if place > 0 {
		a.Job = l.jobs[place-1]
	}
	return a, nil
}

func unmarshal(row any, b []byte) error {
	u, ok := row.(msgp.Unmarshaler)
	if !ok {
		return fault.New(fault.Internal, "row %T has no msgp encoding", row)
	}
	rest, err := u.UnmarshalMsg(b)
	if err != nil {
		return fmt.Errorf("decode %T: %w", row, err)
	}
	if len(rest) > 0 {
		return fault.New(fault.Invalid, "decode %T: %d bytes left over", row, len(rest))
	}
	return nil
}

// ReadByte implements [io.ByteReader].
func (l *load) ReadByte() (byte, error) {
	b, err := l.r.ReadByte()
	if err == nil {
		l.one[0] = b
		l.sum = crc32.Update(l.sum, castagnoli, l.one[:])
	}
	return b, err
}

func (l *load) number() (uint64, error) { return binary.ReadUvarint(l) }

func (l *load) text() (string, error) {
	n, err := l.size(nameMax)
	if err != nil {
		return "", err
	}
	l.small, err = l.append(l.small[:0], n)
	return string(l.small), err
}

// frame reads one row.
func (l *load) frame(to *reading) error {
	n, err := l.size(rowMax)
	if err != nil {
		return err
	}
	to.buf, err = l.append(to.buf, n)
	to.ends = append(to.ends, len(to.buf))
	return err
}

func (l *load) size(limit uint64) (uint64, error) {
	n, err := l.number()
	if err == nil && n > limit {
		err = fault.New(fault.Invalid, "a part of %d bytes is over the limit of %d", n, limit)
	}
	return n, err
}

// pieceMax is how much memory is taken before the bytes for it have come.
const pieceMax = 1 << 16

// append reads n bytes more; memory grows with what arrives, not with n.
func (l *load) append(b []byte, n uint64) ([]byte, error) {
	for n > 0 {
		piece, begin := int(min(n, pieceMax)), len(b)
		b = slices.Grow(b, piece)[:begin+piece]
		if _, err := io.ReadFull(l.r, b[begin:]); err != nil {
			return b, err
		}
		l.sum = crc32.Update(l.sum, castagnoli, b[begin:])
		n -= uint64(piece)
	}
	return b, nil
}
