//go:build race

package sim_test

// The race detector makes everything ten times slower.
const (
	raced      = true
	seedsUsual = 60
)
