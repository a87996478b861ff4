//go:build !race

package evals_test

// sweeps is how many stories the sweep looks at.
const sweeps = 150
