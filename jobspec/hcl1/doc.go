// Package hcl1 reads the files that are written in version 1 of HCL: configuration of agents and specifications of
// volumes. Keys may be quoted, several may stand on one line, with or without commas, and nothing is interpolated.
// JSON is read into the same tree, that of package tree.
package hcl1
