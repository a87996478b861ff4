// Package access decides whether a call may be served: it finds the token of the caller, what its policies permit, and
// compares that with what the method needs (api/wire/needs.go).
//
// [Gate.Admit] runs once per call, on the server that serves it. It puts the [Caller] into the context. Services compare
// the namespaces and pools of the objects that they find by [Sees], and blocking reads look again at the token by [Again].
//
// Invariants:
//   - Without access control every caller may do everything.
//   - A token that is unknown, expired or deleted is refused, also when the method would permit anonymous callers, unless
//     the method is open.
//   - What a caller may not see is answered like what does not exist.
//
// Rights are compiled from the policies of a token and kept until a row of the access tables changes.
package access
