//go:build nextversion

package fsm

import (
	"slices"

	"github.com/tinylib/msgp/msgp"
)

const versionsAhead = 1

// addFields gives every command, which begins at head, a field that today's programs do not know.
func addFields(entry []byte, head int) []byte {
	n, rest, err := msgp.ReadMapHeaderBytes(entry[head:])
	if err != nil {
		return entry
	}
	out := append(msgp.AppendMapHeader(slices.Clip(entry[:head]), n+1), rest...)
	return msgp.AppendString(msgp.AppendString(out, "FieldOfTheNextVersion"), "value")
}
