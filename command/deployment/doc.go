// Package deployment has the verbs of "nomad deployment".
package deployment
