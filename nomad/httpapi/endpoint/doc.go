// Package endpoint is what all endpoints of the HTTP API share: a table of [Route] finds the [Func] of a request; its
// [Call] holds the content of the request, within bounds of size, nesting, time and memory; [Read] and [Write] make the
// one call to the servers, which filter lists and cut them into pages; the [Server] encodes what the endpoint returns.
//
// Invariants:
//   - A request body is decoded into a request type only, never into a stored record, after its size and its nesting
//     were bounded.
//   - Errors are translated in one place, writeError: plain text, and the code of the fault's class.
package endpoint
