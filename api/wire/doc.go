// Package wire is the internal RPC contract: the table of methods, the codec, and how errors and
// connections travel. Callers and services see typed methods only:
//
//	reply, err := wire.VolumeClaim.Call(ctx, servers, req)   // caller
//	wire.VolumeClaim.Handle(volumes.Claim)                   // service
//
// A [Method] defines where it is served ([Leader], [Any], [OnNode]) and who may call it. Messages are
// msgp-coded structs of package api. Faults keep their class across the wire.
//
// One port serves Raft, RPC and the nodes' reversed connections, selected by ALPN in TLS 1.3.
// A [Reloadable] makes the TLS mutual: each end verifies the other's chain, and its [Role] where the
// names are to be verified. After the handshake the server sends one frame that accepts or refuses the
// dialer, so that the dial fails on a refusal and not some later call. [SelfMade]
// encrypts only.
package wire
