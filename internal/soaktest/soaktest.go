// Package soaktest separates the tests of make test from the long runs of make soak.
package soaktest

import "os"

// On reports whether the tests run in make soak.
func On() bool { return os.Getenv("SOAK") != "" }

// Rounds returns how often a test repeats itself: few times in make test, many times in make soak.
func Rounds(few, many int) int {
	if On() {
		return many
	}
	return few
}

// Only skips a test that is too long for make test.
func Only(tb interface {
	Helper()
	Skip(args ...any)
},
) {
	tb.Helper()
	if !On() {
		tb.Skip("runs in make soak")
	}
}
