// Package job has the verbs of "nomad job": one file each.
package job
