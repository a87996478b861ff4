package transport

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// hopsKey is the metadata key that counts how often a call was forwarded.
const hopsKey = "nomad-hops"

// instanceKey is the metadata key that names the process of a node.
const instanceKey = "nomad-instance"

// originKey is the metadata key by which a server names the client whose call it forwards.
const originKey = "nomad-client"

// Peer identifies the caller of a method.
type Peer struct {
	// Address is the network address of the caller; empty for calls inside the process.
	Address string
	// Hops counts the servers that forwarded the call.
	Hops int
	// Role is what the caller's certificate proves, Region where. They are empty when it proves
	// nothing: without configured certificates, on a reversed connection, and inside the process.
	Role   certs.Role
	Region string
	// Instance names the process of the node that calls; servers do not pass it on.
	Instance string
	// Origin is the client whose call another server forwards, where a certificate proves that it is one.
	Origin string
	names  []string
}

// Remote reports whether the call came over the network.
func (p Peer) Remote() bool { return p.Address != "" }

// Of reports whether the caller belongs to a region; a caller without a proven role belongs to every region.
func (p Peer) Of(region string) bool {
	return p.Role == certs.Unproven || region == "" || strings.EqualFold(p.Region, region) ||
		slices.ContainsFunc(p.names, func(name string) bool { return strings.EqualFold(name, p.Role.Name(region)) })
}

// PeerOf returns the caller whose request ctx belongs to.
func PeerOf(ctx context.Context) Peer {
	var p Peer
	if from, ok := peer.FromContext(ctx); ok {
		p.Address = from.Addr.String()
		if proof, ok := from.AuthInfo.(proof); ok && proof.role != certs.Unproven {
			p.Role, p.Region, p.names = proof.role, proof.region, proof.State.PeerCertificates[0].DNSNames
		}
	}
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		if v := md.Get(instanceKey); len(v) == 1 {
			p.Instance = v[0]
		}
		if v := md.Get(originKey); len(v) == 1 && p.Role == certs.RoleServer {
			p.Origin = v[0]
		}
		if v := md.Get(hopsKey); len(v) == 1 {
			n, _ := strconv.Atoi(v[0])
			p.Hops = max(0, n)
		}
	}
	return p
}

// WithHops marks calls made with the context as forwarded n times, for the client whose request it is of.
func WithHops(ctx context.Context, n int) context.Context {
	if origin := cpulimit.ClientOf(ctx); origin != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, originKey, origin)
	}
	return metadata.AppendToOutgoingContext(ctx, hopsKey, strconv.Itoa(n))
}

// host returns a network address without its port.
func host(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
