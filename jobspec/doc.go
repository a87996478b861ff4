// Package jobspec turns job files into jobs: HCL2 with variables, locals, functions and dynamic blocks, and JSON. Both
// readers decode over the same defaults ([Canonicalize]), so that what a file does not say is what a tool leaves null.
//
// This is the way in: it gives variables and locals their values ([Parse]). The parts are packages of their own: nesting and
// expr (texts and expressions within bounds), hclspec (blocks to structs), jsonspec (JSON to structs), defaults, and bounds.
//
// Every mistake is reported as file:line:column: reason, all of them at once. Files are untrusted; DESIGN.md says what
// keeps them small.
package jobspec
