package transport

import (
	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Limits of the structs in a request. An encoded struct takes at least one byte, a decoded one about 500: without a limit a
// decoded request could take 400 times its encoded size.
const (
	structsFree = 64 << 10
	// structBytes is the least average size of the structs above structsFree: half of that of the densest real requests.
	structBytes = 8
)

// rejectSparse rejects requests with too many empty structs for their size.
func rejectSparse(b []byte) error {
	if n, limit := countStructs(b), structsFree+len(b)/structBytes; n > limit {
		return fault.New(fault.TooLarge, "the request has %d structures in %d bytes; the limit is %d", n, len(b), limit)
	}
	return nil
}

// countStructs counts the maps in a message, which is how structs are encoded. It stops where the encoding is invalid.
func countStructs(b []byte) (n int) {
	for todo := uint64(1); todo > 0; todo-- {
		var size uint32
		var err error
		switch msgp.NextType(b) {
		case msgp.MapType:
			size, b, err = msgp.ReadMapHeaderBytes(b)
			todo += 2 * uint64(size)
			n++
		case msgp.ArrayType:
			size, b, err = msgp.ReadArrayHeaderBytes(b)
			todo += uint64(size)
		default:
			b, err = msgp.Skip(b)
		}
		if err != nil {
			return n
		}
	}
	return n
}
