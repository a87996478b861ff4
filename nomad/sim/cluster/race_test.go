//go:build race

package cluster

const (
	raced      = true
	seedsUsual = 4
)
