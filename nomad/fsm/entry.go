package fsm

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api/fault"
)

// entryVersion is the layout of the envelope.
const entryVersion = 1

// EntryMax bounds an entry; the log's files hold no larger ones.
const EntryMax = 60 << 20

const (
	entryHead = 1 + 2 + 8 + 1 // version, kind, time, length of the proposer
	entryTail = crc32.Size
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// entry is one command as the log holds it.
type entry struct {
	kind     Kind
	time     time.Time
	proposer string
	body     []byte
}

// EncodeEntry makes the log bytes of a command.
func EncodeEntry(cmd Command, now time.Time, proposer string) ([]byte, error) {
	if len(proposer) > math.MaxUint8 {
		return nil, fault.New(fault.Invalid, "server id %q is too long", proposer)
	}
	size := entryHead + len(proposer) + entryTail
	if s, ok := cmd.(msgp.Sizer); ok {
		size += s.Msgsize()
	}
	b := append(make([]byte, 0, size), entryVersion)
	b = binary.BigEndian.AppendUint16(b, uint16(cmd.Kind()))
	b = binary.BigEndian.AppendUint64(b, uint64(now.UnixNano()))
	b = append(b, byte(len(proposer)))
	b = append(b, proposer...)
	head := len(b)
	b, err := cmd.MarshalMsg(b)
	if err != nil {
		return nil, fault.New(fault.Internal, "encode command %d: %w", cmd.Kind(), err)
	}
	b = addFields(b, head)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), nil
}

// decodeEntry checks and takes apart log bytes; the body is a part of b.
func decodeEntry(b []byte) (entry, error) {
	if len(b) < entryHead+entryTail {
		return entry{}, fault.New(fault.Invalid, "log entry of %d bytes is cut", len(b))
	}
	sealed, sum := b[:len(b)-entryTail], binary.BigEndian.Uint32(b[len(b)-entryTail:])
	if crc32.Checksum(sealed, castagnoli) != sum {
		return entry{}, fault.New(fault.Invalid, "log entry is damaged: its checksum does not match")
	}
	if sealed[0] != entryVersion {
		return entry{}, fault.New(fault.Invalid, "log entry has version %d; this program reads version %d", sealed[0], entryVersion)
	}
	e := entry{
		kind: Kind(binary.BigEndian.Uint16(sealed[1:])),
		time: time.Unix(0, int64(binary.BigEndian.Uint64(sealed[3:]))).UTC(),
	}
	n := int(sealed[entryHead-1])
	if len(sealed) < entryHead+n {
		return entry{}, fault.New(fault.Invalid, "log entry of %d bytes is cut", len(b))
	}
	e.proposer = string(sealed[entryHead : entryHead+n])
	e.body = sealed[entryHead+n:]
	return e, nil
}

// CheckEntry returns an error for log bytes that are not a whole command.
func CheckEntry(b []byte) error {
	_, err := decodeEntry(b)
	return err
}
