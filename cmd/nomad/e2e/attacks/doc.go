// Package attacks holds what somebody with a certificate, a key or only an address tries against a cluster: three
// real servers and a node with mutual TLS. All of it is refused, with the reason. The attackers speak the servers'
// own protocols.
package attacks
