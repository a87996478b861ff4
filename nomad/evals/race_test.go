//go:build race

package evals_test

// sweeps is how many stories the sweep looks at: they are slow under the race detector.
const sweeps = 30
