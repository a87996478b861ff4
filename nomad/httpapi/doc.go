// Package httpapi is the HTTP server: a table of routes, each of which decodes a request, makes one
// wire call and encodes the answer. It holds no state and decides nothing about the cluster.
//
//	handler := httpapi.New(httpapi.Config{Servers: caller, Node: nodes.Node, ...})
//
// Invariants:
//   - A request body is decoded into a request type only, never into a stored record, after its
//     size and its nesting were bounded.
//   - Filters, paging and order of lists are applied here, after the call; servers see the prefix only.
//   - Errors are translated in one place, writeError: plain text, and a code that says whose fault it is.
//   - Nothing secret leaves: nodes and volumes go through Redacted.
package httpapi
