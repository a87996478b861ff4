// Package jobspec turns job files into jobs: HCL2 with variables, locals, functions and dynamic blocks, and JSON. Both
// readers decode over the same defaults ([Canonicalize]), so that a field that a file leaves out has the same value as
// one that a tool sets to null.
//
// This is the way in: it gives variables and locals their values ([Parse]). The parts are packages of their own: nesting and
// expr (texts and expressions within bounds), hclspec (blocks to structs), jsonspec (JSON to structs), defaults, and bounds.
//
// Every mistake is reported as file:line:column: reason, all of them at once. Files are untrusted; DESIGN.md describes
// what bounds them.
package jobspec
