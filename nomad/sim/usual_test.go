//go:build !race

package sim_test

const (
	raced      = false
	seedsUsual = 1000
)
