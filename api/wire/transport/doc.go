// Package transport carries the calls of package wire between agents: the port of a server, connections to it, the codec,
// and how errors travel. Faults keep their class on the other side.
//
// One port serves Raft, RPC and the nodes' reversed connections, selected by ALPN in TLS 1.3. After the handshake the
// server sends one frame that accepts or refuses the dialer, so that the dial fails on a refusal and not some later call.
package transport
