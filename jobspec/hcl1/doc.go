// Package hcl1 reads the files that are written in version 1 of HCL: configuration of agents and specifications of
// volumes. Keys may be quoted, several may stand on one line, with or without commas, and nothing is interpolated.
// The same tree is read from JSON.
package hcl1
