// Package eval has the verbs of "nomad eval".
package eval
