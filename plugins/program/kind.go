package program

import (
	"context"
	"os"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/open-nomad/open-nomad/api/fault"
)

// MaxMessage bounds a message in bytes, in both directions.
const MaxMessage = 16 << 20

// Kind is a kind of plugins.
type Kind struct {
	// Noun names one plugin of the kind for people, such as "driver"; Protocol names what it speaks.
	Noun, Protocol string
	// Prefix begins the name of an executable; the name of the plugin is the rest. With Optional it may be left out.
	Prefix   string
	Optional bool
	// Cookie and Value identify agent and plugin to each other. They protect from mistakes, not from attacks.
	Cookie, Value string
	// Version is the version of the protocol.
	Version int
}

func (k Kind) handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{MagicCookieKey: k.Cookie, MagicCookieValue: k.Value}
}

// Serve serves the services that register adds to a server, until the agent ends the process. new gets the log, whose lines
// become those of the agent.
func (k Kind) Serve(register func(r grpc.ServiceRegistrar, log hclog.Logger)) {
	log := hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: os.Stderr, JSONFormat: true})
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: k.handshake(), Logger: log,
		VersionedPlugins: k.plugins(&service{register: func(r grpc.ServiceRegistrar) { register(r, log) }}),
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(options, grpc.MaxRecvMsgSize(MaxMessage))...)
		},
	})
}

// serviceName is the name of the service in the set of plugins.
const serviceName = "plugin"

func (k Kind) plugins(s *service) map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{k.Version: {serviceName: s}}
}

// service connects go-plugin with the services of a kind. In the agent, it dispenses the connection.
type service struct {
	plugin.NetRPCUnsupportedPlugin
	register func(grpc.ServiceRegistrar)
}

var _ plugin.GRPCPlugin = (*service)(nil)

// GRPCServer registers the services in a plugin.
func (s *service) GRPCServer(_ *plugin.GRPCBroker, r *grpc.Server) error {
	if s.register == nil {
		return fault.New(fault.Internal, "the agent serves no plugin")
	}
	s.register(r)
	return nil
}

// GRPCClient returns the connection of the agent.
func (*service) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}
