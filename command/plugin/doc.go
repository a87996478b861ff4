// Package plugin has the verbs of "nomad plugin".
package plugin
