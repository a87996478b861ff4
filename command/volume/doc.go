// Package volume has the verbs of "nomad volume": one file each.
package volume
