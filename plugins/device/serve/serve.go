// Package serve makes a program of a device plugin in Go: its main calls [Serve]. The agent starts the program from its plugin
// directory; see docs/devices.md.
package serve

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/device"
	"github.com/open-nomad/open-nomad/plugins/device/protocol"
	"github.com/open-nomad/open-nomad/plugins/program"
	"github.com/open-nomad/open-nomad/plugins/program/schema"
)

// Plugin describes a device plugin.
type Plugin struct {
	// Name is the name of the executable without its prefix "nomad-device-".
	Name    string
	Version string
	// Config is a value of the struct that the plugin passes to driver.DecodeConfig; nil is a block without keys.
	Config any
	// New makes the plugin. The config has keys of Config. The directory survives restarts.
	New func(config map[string]any, stateDir string, log hclog.Logger) (device.Plugin, error)
}

// Serve serves the plugin until the agent ends the process.
func Serve(p Plugin) {
	protocol.Kind.Serve(func(r grpc.ServiceRegistrar, log hclog.Logger) {
		protocol.RegisterDeviceServer(r, &server{plugin: p, log: log})
	})
}

// server is the service of a device plugin.
type server struct {
	protocol.UnimplementedDeviceServer
	plugin Plugin
	log    hclog.Logger

	mu     sync.Mutex
	device device.Plugin
}

func (s *server) Info(context.Context, *protocol.InfoRequest) (*protocol.InfoResponse, error) {
	return &protocol.InfoResponse{Name: s.plugin.Name, Version: s.plugin.Version, Config: schema.Of(s.plugin.Config)}, nil
}

func (s *server) Configure(_ context.Context, r *protocol.ConfigureRequest) (*protocol.ConfigureResponse, error) {
	config, err := schema.Config(r.GetConfig())
	if err != nil {
		return nil, program.ToStatus(fault.Wrap(fault.Invalid, err))
	}
	d, err := s.plugin.New(config, r.GetStateDir(), s.log)
	if err != nil {
		return nil, program.ToStatus(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.device = d
	return &protocol.ConfigureResponse{}, nil
}

// with calls the plugin and makes a status of its error.
func (s *server) with(f func(device.Plugin) error) error {
	s.mu.Lock()
	d := s.device
	s.mu.Unlock()
	if d == nil {
		return program.ToStatus(fault.New(fault.Conflict, "the plugin is not configured yet"))
	}
	return program.ToStatus(f(d))
}

func (s *server) Fingerprint(_ *protocol.FingerprintRequest, stream protocol.Device_FingerprintServer) error {
	return s.with(func(d device.Plugin) error {
		ch, err := d.Fingerprint(stream.Context())
		if err != nil {
			return err
		}
		for f := range ch {
			if f.Err != nil {
				return f.Err
			}
			if err := stream.Send(&protocol.FingerprintResponse{Groups: protocol.FromGroups(f.Groups)}); err != nil {
				return err
			}
		}
		return stream.Context().Err()
	})
}

func (s *server) Reserve(ctx context.Context, r *protocol.ReserveRequest) (out *protocol.ReserveResponse, err error) {
	err = s.with(func(d device.Plugin) error {
		reserved, err := d.Reserve(ctx, r.GetIds())
		if err == nil {
			out = protocol.FromReservation(reserved)
		}
		return err
	})
	return out, err
}

func (s *server) Stats(r *protocol.StatsRequest, stream protocol.Device_StatsServer) error {
	return s.with(func(d device.Plugin) error {
		ch, err := d.Stats(stream.Context(), time.Duration(r.GetInterval()))
		if err != nil {
			return err
		}
		for st := range ch {
			if st.Err != nil {
				return st.Err
			}
			if err := stream.Send(&protocol.StatsResponse{Groups: protocol.FromStats(st.Groups)}); err != nil {
				return err
			}
		}
		return stream.Context().Err()
	})
}
