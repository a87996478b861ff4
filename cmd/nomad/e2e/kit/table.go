package kit

import (
	"fmt"
	"os"
	"testing"
)

// Measured logs a line of figures and adds it to the table that make e2e prints at its end: the file
// that E2E_TABLE names.
func Measured(tb testing.TB, line string) {
	tb.Helper()
	tb.Log(line)
	table := os.Getenv("E2E_TABLE")
	if table == "" {
		return
	}
	if tb.Failed() {
		line += " | FAILED"
	}
	f, err := os.OpenFile(table, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	fmt.Fprintln(f, line)
}
