//go:build !race

package model_test

const sequencesUsual = 200
