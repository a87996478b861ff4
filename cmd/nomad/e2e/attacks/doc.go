// Package attacks holds what the holders of a certificate, a key, a token or only an address try against real agents: three
// servers and a node with mutual TLS, or agents with access control. All of it is refused, with the reason. The attackers use
// the servers' own protocols.
package attacks
