//go:build race

package sim_test

// The race detector makes everything ten times slower.
const seedsUsual = 60
