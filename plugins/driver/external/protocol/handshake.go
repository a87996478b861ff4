package protocol

import (
	"context"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/open-nomad/open-nomad/api/fault"
)

const (
	// Version is the version of the protocol.
	Version = 1
	// PluginName is the name of the service in the set of plugins.
	PluginName = "driver"
	// Prefix may begin the name of an executable; the name of the driver is the rest.
	Prefix = "nomad-driver-"
	// MaxMessage bounds a message in bytes, in both directions.
	MaxMessage = 16 << 20
)

// Handshake identifies agent and plugin to each other. It protects from mistakes, not from attacks.
var Handshake = plugin.HandshakeConfig{MagicCookieKey: "OPEN_NOMAD_DRIVER_PLUGIN", MagicCookieValue: "4f1a3c0e-task-driver"}

// Plugins returns the plugins by versions of the protocol; server is nil in the agent.
func Plugins(server DriverServer) map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{Version: {PluginName: &service{server: server}}}
}

// service connects go-plugin with the service of driver.proto.
type service struct {
	plugin.NetRPCUnsupportedPlugin
	server DriverServer
}

var _ plugin.GRPCPlugin = (*service)(nil)

// GRPCServer registers the service in a plugin.
func (s *service) GRPCServer(_ *plugin.GRPCBroker, r *grpc.Server) error {
	if s.server == nil {
		return fault.New(fault.Internal, "the agent serves no driver")
	}
	RegisterDriverServer(r, s.server)
	return nil
}

// GRPCClient makes the agent's client.
func (*service) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return NewDriverClient(conn), nil
}
