// Package csi speaks the Container Storage Interface with one plugin over its unix socket.
//
// A [Client] has the calls of the identity, controller and node services as methods on plain types of
// package api; protobuf stays inside this tree. Plugins are not trusted: every reply is checked for holes,
// every call has a deadline, and no request is logged, for requests carry secrets.
//
// The client keeps to the specification where the orchestrator must: fields are sent only to plugins that announced
// the capability for them (topology, read-only attaching, the single-node modes, the staging path), and sizes are
// checked before anything is sent. Capabilities are learned with the first call that needs them, again with every
// [Client.Fingerprint], and forgotten when a plugin returns UNIMPLEMENTED.
//
// Changing calls for one object (a volume, a snapshot, a creation) follow each other, also after a caller gave
// one up: see Timeouts.Linger. [Client.Verify] asks what the provider knows by the best call that the plugin has.
//
// The values of all secrets that a client sends are hidden in every text of the plugin (package mask), which is
// also made plain and short: it is recorded, shown and logged elsewhere.
//
// # Errors
//
// One table (codes.go) defines for every gRPC code and kind of call what to do next: the verdict of a [fault.Call],
// whether the call may have had its effect all the same, and the class that callers outside see. [VerdictOf] reads it
// from an error, [Do] repeats a call by it. No other code decides by codes or texts.
//
// What the table cannot know is added where the call was made: a call that was never sent has had no effect, and a
// plugin that stopped without a reply is called again as soon as it is back. Our own checks before a call are not
// Calls. A reply that lacks a required field leaves open what a changing call did.
package csi
