// Package api is the dictionary: the plain structs that cross a border. Command line, HTTP, RPC,
// raft, the state store and the node all use these types, so there is nothing to convert.
//
// JSON names are the contract with users' tools; the facts behind them are those of the compatible
// HTTP API. Files named after an aggregate (job.go, node.go, volume_record.go, ...) hold what is
// stored or shown; files ending in _rpc.go hold requests and replies between server, node and HTTP API.
//
// Invariants:
//   - Scalars are never pointers: zero means unset, and defaults are decoded over, not patched after. Attribute
//     and StatValue of devices are the exception: the pointer that is set determines the kind of the value.
//   - Durations are nanoseconds, memory and disk MiB, processor shares MHz, unless a name contains another unit.
//   - Fields are only added, never re-typed: the stored shape is the public shape.
//   - What was read from the state store is never changed: copy the struct, replace the part, put it back.
//   - No function here is longer than ten lines, and nothing but the standard library is imported
//     (the generated codec files aside).
package api

//go:generate go run -modfile=../tools/go.mod ../cmd/nomad/codec.go .
