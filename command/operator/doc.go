// Package operator has the verbs of "nomad operator".
package operator
