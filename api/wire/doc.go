// Package wire is the internal RPC contract: the table of methods, the codec, and how errors and
// connections travel. Callers and services see typed methods only:
//
//	reply, err := wire.VolumeClaim.Call(ctx, servers, req)   // caller
//	wire.VolumeClaim.Handle(volumes.Claim)                   // service
//
// A [Method] says where it is served ([Leader], [Any], [OnNode]) and who may call it. Messages are
// msgp-coded structs of package api. Faults keep their class across the wire.
//
// One port carries Raft, RPC and the nodes' reversed connections, told apart by ALPN inside TLS 1.3.
// A [Reloadable] makes the TLS mutual: each end verifies the other's chain, and its [Role] where the
// names are to be verified. After the handshake the server says in one frame whether it lets the
// dialer in, so that a refusal is the outcome of the dial and not of some later call. [SelfMade]
// encrypts only.
package wire
