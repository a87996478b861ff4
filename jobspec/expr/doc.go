// Package expr reads the texts of job files and evaluates their expressions. Files are untrusted: package nesting looks at
// them before the parser does, and what expressions make is weighed while they are evaluated, loops and functions included;
// beyond [WeightMax] the file is refused.
//
// References that only the node or the scheduler knows (${NOMAD_*}, ${node.*}, ${attr.*}, ${meta.*}, ${env["X"]},
// ${device.*}) survive as text.
package expr
