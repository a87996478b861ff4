// Package rest is the Go client of the HTTP API, one file per aggregate.
//
//	c, err := rest.New(rest.FromEnvironment())
//	jobs, meta, err := c.Jobs(ctx, rest.Query{Prefix: "web"})
//
// A failed request keeps its class: errors.Is(err, fault.NotFound) holds for an answer of 404.
// Reads take a [Query]; with Index they wait until the answer is newer. A Client is safe for
// concurrent use.
package rest
