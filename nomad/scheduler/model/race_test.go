//go:build race

package model_test

// With the race detector a sequence takes many times as long.
const sequencesUsual = 30
