// Package csi speaks the Container Storage Interface with one plugin over its unix socket.
//
// A [Client] has the calls of the identity, controller and node services as methods on plain types of
// package api; protobuf stays inside this tree. Plugins are not trusted: every reply is checked for holes,
// every call has a deadline, and no request is logged, for requests carry secrets.
//
// The client keeps to the specification where the orchestrator must: fields are sent only to plugins that
// announced the capability for them (topology, read-only attaching, the single-node modes, the staging
// path), and sizes are checked before anything is sent. Capabilities are learned with the first call that
// needs them, again with every [Client.Fingerprint], and forgotten when a plugin answers UNIMPLEMENTED.
//
// # Errors
//
// One table (codes.go) says for every gRPC code and kind of call what to do next: [Retry], [RetryFew],
// [Final], [Done] or [Exhausted]. Calls that undo something treat what is already gone as success. An
// [Error] has the action, the fault class and the plugin's own text. [Do] repeats a call by that table.
package csi
