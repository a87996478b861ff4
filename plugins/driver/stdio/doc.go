// Package stdio connects the standard streams of a process to the input and output of a command: by pipes, or by a
// terminal.
package stdio
