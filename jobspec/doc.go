// Package jobspec turns job files into jobs: HCL2 with variables, locals, functions and dynamic
// blocks, and JSON. Both readers decode over the same defaults ([Canonicalize]), so that what a file
// does not say is what a tool leaves null.
//
// Decoding is driven by the hcl tags of package api: a new key is one more tagged field. What the
// tags cannot say (ports, short forms of constraints, a task without a group) is in special.go.
//
// Every mistake is reported as file:line:column: reason, all of them at once. Files are untrusted:
// size and nesting are checked with the lexer before the parser, whose recursion could overflow the
// stack, sees them. What expressions make is weighed while they are evaluated, loops and functions
// included; beyond [WeightMax] the file is refused.
//
// References that only the node or the scheduler knows (${NOMAD_*}, ${node.*}, ${attr.*},
// ${meta.*}, ${env["X"]}, ${device.*}) survive as text.
package jobspec
