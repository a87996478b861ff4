// Package volumespec turns volume files, HCL or JSON, into the specification of a volume.
//
// Every key is known: one that is not is an error with its place, file:line:column: reason, because
// a misspelt key would silently make another volume than was asked for. Capacities are written with
// a unit ("10GiB", "500MB") and become bytes.
package volumespec
