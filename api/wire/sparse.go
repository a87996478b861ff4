package wire

import (
	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Bounds of the structures in a request. Each takes one byte at least, and half a KiB in memory: without a bound a request
// would take some hundred times as much of that as it is long.
const (
	structsFree = 64 << 10
	// structBytes is how many bytes there must be for each further one: half of what those have that say least.
	structBytes = 8
)

// dense refuses a request that is made of more structures than what they could say explains.
func dense(b []byte) error {
	if n, most := structs(b), structsFree+len(b)/structBytes; n > most {
		return fault.New(fault.TooLarge, "%d structures in a request of %d bytes; at most %d are possible", n, len(b), most)
	}
	return nil
}

// structs counts the maps in a message, which is what structures are; it stops where the message is none.
func structs(b []byte) (n int) {
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
