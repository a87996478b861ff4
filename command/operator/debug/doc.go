// Package debug has the verb "nomad operator debug", which writes an archive about a cluster for those who help to find a fault.
//
// Every call has a bound, and every file is written on its own: when a server or node does not respond or refuses, its file
// contains the error and the rest of the archive is complete. All documents pass through one function that removes secrets
// before they reach the disk.
package debug
