// Package slow tells of what takes long, and may do so for ever: a start that reads a disk which hangs. It ends nothing.
package slow
