// Package session is what every verb of the command line shares: the general flags, the client
// that they describe, and where to print. A verb is declared as a [Verb] and gets a [Session]:
//
//	session.Verb{Name: "gc", Usage: "run garbage collection", Run: gc}.Command()
//
// Flags are spelled with one dash and may stand after arguments. A verb returns an error to fail
// with code 1, or an [Exit] for another code; errors go to stderr.
package session
