// Package alloc has the verbs of "nomad alloc": one file each.
package alloc
