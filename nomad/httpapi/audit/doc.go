// Package audit records the requests of the HTTP API: one line of JSON when a request is received, and one when it is
// complete.
//
// Invariants:
//   - While a sink with enforced delivery cannot be written, no request is served whose events it must have.
//   - No event contains a secret: of a request it has the method, the path, the user agent and the values of a few known
//     parameters, never headers, bodies or other parameters. Errors are given by their code, because their texts may quote
//     the request. Where the secret of the caller is in one of these, it is replaced.
package audit
