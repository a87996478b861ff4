//go:build !race

package nomad_test

const sparse = 1

const stories = 6
