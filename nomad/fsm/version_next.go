//go:build nextversion

package fsm

import "github.com/tinylib/msgp/msgp"

const versionsAhead = 1

// addFields gives every command a field that today's programs do not know.
func addFields(body []byte) []byte {
	n, rest, err := msgp.ReadMapHeaderBytes(body)
	if err != nil {
		return body
	}
	out := append(msgp.AppendMapHeader(nil, n+1), rest...)
	return msgp.AppendString(msgp.AppendString(out, "FieldOfTheNextVersion"), "value")
}
