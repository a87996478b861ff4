// Package wire is the internal RPC contract: the table of methods, where each is served, who may call it and what a
// token must permit. Callers and services see typed methods only, so that a caller and a service that disagree do not
// compile:
//
//	reply, err := wire.VolumeClaim.Call(ctx, servers, req)   // caller
//	wire.VolumeClaim.Handle(volumes.Claim)                   // service
//
// Requests and replies are the msgp-coded structs of package api. Package transport carries them; package certs is the
// TLS identity of an agent.
package wire
