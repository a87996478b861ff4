// Package server has the verbs of "nomad server".
package server
