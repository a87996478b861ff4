// Package node has the verbs of "nomad node".
package node
