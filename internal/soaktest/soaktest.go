// Package soaktest separates the tests of make test from the long runs of make soak.
package soaktest

import "os"

// On reports whether the tests run in make soak, which sets SOAK=half.
func On() bool { return os.Getenv("SOAK") != "" }

// Rounds returns how often a test repeats itself: few times in make test, many times with SOAK=1, and the mean of both with
// SOAK=half.
func Rounds(few, many int) int {
	switch os.Getenv("SOAK") {
	case "":
		return few
	case "half":
		return (few + many) / 2
	default:
		return many
	}
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
