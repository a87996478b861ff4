// Package namespace has the verbs of "nomad namespace".
package namespace
