package state

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"maps"
	"slices"

	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
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

// DumpRedacted writes them without the secrets of nodes and volumes.
func (t *Txn) DumpRedacted(w io.Writer) error { return t.dump(w, true) }

func (t *Txn) dump(w io.Writer, redact bool) error {
	d := &dump{w: w, sum: crc32.New(castagnoli), places: map[*api.Job]uint64{}, redact: redact}
	d.raw([]byte(snapshotMagic))
	d.number(t.index)
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
	buf    []byte
	err    error
	// redact leaves out secrets.
	redact bool
}

// redacted returns a row without its secrets.
func redacted(row any) any {
	switch r := row.(type) {
	case *api.Node:
		return r.Redacted()
	case *api.Volume:
		c := *r
		c.VolumeSpec = *r.VolumeSpec.Redacted()
		return &c
	case *api.VolumeAttachment:
		return r.Redacted()
	case *api.VolumeClaim:
		c := *r
		c.MountOptions = r.MountOptions.Redacted()
		return &c
	case *api.SnapshotIntent:
		c := *r
		c.Secrets = nil
		return &c
	}
	return row
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

func (d *dump) row(prefix []byte, row any) {
	m, ok := row.(msgp.Marshaler)
	if !ok {
		d.err = fault.New(fault.Internal, "row %T has no msgp encoding", row)
		return
	}
	b, err := m.MarshalMsg(append(d.buf[:0], prefix...))
	if err != nil {
		d.err = fmt.Errorf("encode row %T: %w", row, err)
		return
	}
	d.buf = b
	d.number(uint64(len(b)))
	d.raw(b)
}

// jobs writes each job that some allocation points at once.
func (d *dump) jobs(t *Txn) {
	var shared []*api.Job
	for a := range t.Allocs(api.AllNamespaces) {
		if _, known := d.places[a.Job]; a.Job != nil && !known {
			shared = append(shared, a.Job)
			d.places[a.Job] = uint64(len(shared))
		}
	}
	d.text(sharedJobs)
	d.number(0)
	d.number(uint64(len(shared)))
	for _, j := range shared {
		d.row(nil, j)
	}
}

// table writes one table. One that nobody ever wrote is left out, so that servers of a version that does
// not know it can read the snapshot.
func (d *dump) table(t *Txn, name string) {
	var count uint64
	each(t, name, func(any) { count++ })
	if count == 0 && indexes.get(t, "id", name) == nil {
		return
	}
	d.text(name)
	d.number(t.TableIndex(name))
	d.number(count)
	each(t, name, func(row any) {
		if d.redact {
			row = redacted(row)
		}
		a, isAlloc := row.(*api.Allocation)
		if !isAlloc {
			d.row(nil, row)
			return
		}
		bare := *a
		bare.Job = nil
		d.row(binary.AppendUvarint(nil, d.places[a.Job]), &bare)
	})
}

func each(t *Txn, name string, do func(row any)) {
	t.mem.each(name, "id", nil, func(row any) bool {
		do(row)
		return true
	})
}

// Restore replaces all rows by those of a snapshot: readers see the old state or the new one. Watchers
// wake, feeds resync. When it fails the old state stays.
func (s *Store) Restore(r io.Reader) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	l := &load{r: bufio.NewReader(r), sum: crc32.New(castagnoli), tx: &Txn{store: s, mem: s.db.write(false), write: true}}
	if err := l.all(); err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	l.tx.mem.commit()
	s.watch.reset(l.index)
	s.feeds.publish(Batch{Index: l.index, Resync: true})
	return nil
}

type load struct {
	r     *bufio.Reader
	sum   hash.Hash32
	tx    *Txn
	index uint64
	jobs  []*api.Job
	buf   bytes.Buffer
}

func (l *load) all() error {
	magic, err := l.bytes(uint64(len(snapshotMagic)))
	if err != nil {
		return err
	}
	if string(magic) != snapshotMagic {
		return fault.New(fault.Invalid, "this is not a snapshot of state version 1")
	}
	if l.index, err = l.number(); err != nil {
		return err
	}
	for name := range tables {
		l.tx.mem.fill(name, nil)
	}
	l.tx.mem.fill(indexes.name, nil)
	for {
		more, err := l.table()
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	l.tx.mem.insert(indexes.name, &indexRow{appliedRow, l.index})
	return l.checkSum()
}

func (l *load) checkSum() error {
	want := l.sum.Sum32()
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
	put, err := l.putter(name, index)
	if err != nil {
		return false, err
	}
	for range count {
		b, err := l.framed(rowMax)
		if err != nil {
			return false, fmt.Errorf("table %s: %w", name, err)
		}
		if err := put(b); err != nil {
			return false, fmt.Errorf("table %s: %w", name, err)
		}
	}
	return true, nil
}

func (l *load) putter(name string, index uint64) (func([]byte) error, error) {
	if name == sharedJobs {
		return l.putJob, nil
	}
	t, known := tables[name]
	if !known {
		return nil, fault.New(fault.Invalid, "unknown table %q: a newer version of the program wrote it", name)
	}
	l.tx.mem.insert(indexes.name, &indexRow{name, index})
	if name == TableAllocs {
		return l.putAlloc, nil
	}
	return func(b []byte) error { return l.insert(name, t.fresh(), b) }, nil
}

func (l *load) insert(name string, row any, b []byte) error {
	if err := unmarshal(row, b); err != nil {
		return err
	}
	l.tx.mem.insert(name, row)
	l.tx.remember(row)
	return nil
}

func (l *load) putJob(b []byte) error {
	j := &api.Job{}
	l.jobs = append(l.jobs, j)
	return unmarshal(j, b)
}

func (l *load) putAlloc(b []byte) error {
	place, n := binary.Uvarint(b)
	if n <= 0 || place > uint64(len(l.jobs)) {
		return fault.New(fault.Invalid, "an allocation refers to job %d of %d", place, len(l.jobs))
	}
	a := &api.Allocation{}
	if err := unmarshal(a, b[n:]); err != nil {
		return err
	}
	if place > 0 {
		a.Job = l.jobs[place-1]
	}
	l.tx.mem.insert(TableAllocs, a)
	l.tx.remember(a)
	return nil
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

func (l *load) ReadByte() (byte, error) {
	b, err := l.r.ReadByte()
	if err == nil {
		_, _ = l.sum.Write([]byte{b})
	}
	return b, err
}

func (l *load) number() (uint64, error) { return binary.ReadUvarint(l) }

func (l *load) text() (string, error) {
	b, err := l.framed(nameMax)
	return string(b), err
}

func (l *load) framed(limit uint64) ([]byte, error) {
	n, err := l.number()
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fault.New(fault.Invalid, "a part of %d bytes is over the limit of %d", n, limit)
	}
	return l.bytes(n)
}

// bytes reads n bytes, which are good until the next read; memory grows with what arrives, not with n.
func (l *load) bytes(n uint64) ([]byte, error) {
	l.buf.Reset()
	if _, err := io.CopyN(&l.buf, l.r, int64(n)); err != nil {
		return nil, err
	}
	_, _ = l.sum.Write(l.buf.Bytes())
	return l.buf.Bytes(), nil
}
