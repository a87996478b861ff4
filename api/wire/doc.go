// Package wire is the internal RPC contract: the table of methods, the codec, and how errors and
// connections travel. Callers and rooms see typed methods only:
//
//	reply, err := wire.VolumeClaim.Call(ctx, servers, req)   // caller
//	wire.VolumeClaim.Handle(volumes.Claim)                   // room
//
// A [Method] says where it is served ([Leader], [Any], [OnNode]) and who may call it. Messages are
// msgp-coded structs of package api. Faults keep their class across the wire.
package wire
