// Package scaling has the verbs of "nomad scaling".
package scaling
