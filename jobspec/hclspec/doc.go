// Package hclspec decodes the job block of a file into a job, by the hcl tags of package api and over the defaults of
// package defaults: a new key is one more tagged field. What the tags cannot express (ports, short forms of
// constraints, a task without a group) is in special.go.
package hclspec
