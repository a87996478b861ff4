// Package networks gives allocations networks of their own.
//
// An allocation whose group asks for the mode none or bridge gets a network namespace, which is a bind mount below
// [Config].Dir: it needs no process to exist. With mode bridge the namespace has an interface eth0 whose other end is a port of
// a bridge of the host, an address of the bridge's subnet, and a default route. Packets to other hosts are masqueraded;
// ports of the host are forwarded to the allocation by the kernel (nftables).
//
//	host                                       namespace of the allocation
//	nomad (bridge, 172.26.64.1) ── nm-<id> ─── eth0 (172.26.64.2)
//
// # Leases
//
// The address and the ports of an allocation are recorded in a file before anything is made for it, and the file is removed
// after all that was made is removed. The files are in a directory of /run that all agents of the host share: they end with
// the kernel's state, and no two agents use one address. A file that names an allocation which the agent does not know is a
// leftover of a crash; [Service.Restored] removes what belongs to it.
//
// # Invariants
//
// Up may be repeated at any time. It makes what is missing and changes nothing that is there, so it also repairs the network
// of a running task. The names of links, files and rules follow from the allocation alone.
package networks
