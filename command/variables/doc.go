// Package variables has the verbs of "nomad var".
package variables
