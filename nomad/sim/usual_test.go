//go:build !race

package sim_test

const seedsUsual = 1000
