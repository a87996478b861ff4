// Package ids says which ids that drivers make can be stored and shown. Drivers are written by others: their ids become
// keys of rows on every server, and are typed and printed in terminals.
package ids

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/open-nomad/open-nomad/api"
)

// Max bounds an id that a driver makes, in bytes. Many are longer than the 128 that CSI allows.
const Max = 4 << 10

// Wrong says why a driver's id of a volume, a snapshot or a node, or a name in a topology, cannot be stored and shown, as
// in "it has a control character"; "" when it can. Keys of rows are made of ids, with NUL between them.
func Wrong(s string) string {
	switch {
	case s == "":
		return "it is empty"
	case len(s) > Max:
		return fmt.Sprintf("it has %d bytes, of at most %d", len(s), Max)
	case !utf8.ValidString(s):
		return "it is no UTF-8"
	case strings.ContainsFunc(s, Steers):
		return "it has a control character or one that turns the direction of text"
	}
	return ""
}

// WrongTopology says why a topology that a driver answers cannot be stored and shown; "" when it can.
func WrongTopology(t *api.Topology) string {
	if t == nil {
		return ""
	}
	for k, v := range t.Segments {
		if why := Wrong(k); why != "" {
			return fmt.Sprintf("a topology has the key %.64q: %s", k, why)
		}
		if why := Wrong(v); why != "" && v != "" {
			return fmt.Sprintf("a topology has the value %.64q: %s", v, why)
		}
	}
	return ""
}
