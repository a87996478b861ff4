// Package system has the verbs of "nomad system".
package system
