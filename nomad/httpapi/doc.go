// Package httpapi is the HTTP server: it puts together the routes of all nouns, each of which decodes a request, makes one
// wire call and encodes the response. It holds no state and decides nothing about the cluster.
//
//	handler := httpapi.New(httpapi.Config{Servers: caller, Node: nodes.Node, ...})
//
// Invariants:
//   - A request body is decoded into a request type only, never into a stored record, after its
//     size and its nesting were bounded.
//   - Paging and order of lists are applied here, after the call, and so are filters where rows show all of an object.
//   - Errors are translated in one place, writeError of package endpoint: plain text, and the code of the fault's class.
//   - Nothing secret leaves: nodes and volumes go through Redacted of api/mask.
package httpapi
