// Package slow logs steps of a start that take long, such as reading a disk that hangs. It does not end them.
package slow
