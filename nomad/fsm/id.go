package fsm

import (
	"crypto/sha256"
	"fmt"
)

// DerivedID computes an id from a seed that travels in a command, so that Apply can name rows whose
// number only it knows and all servers name them equally.
func DerivedID(seed string, parts ...string) string {
	h := sha256.New()
	for _, p := range append([]string{seed}, parts...) {
		_, _ = fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	b := h.Sum(nil)
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
