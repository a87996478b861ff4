package nomad

import (
	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/gc"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/volumes"
)

// Config is what a server needs.
type Config struct {
	Name, Region, Datacenter, Version string
	// Dir keeps the log, snapshots and the server's identity; empty keeps everything in memory.
	Dir string
	// Bind is the address of the RPC port, Advertise what others are told; empty means the bound one.
	Bind, Advertise string
	// Workers is how many evaluations are processed at once; 0 means a default.
	Workers     int
	JobVersions int
	Heartbeat   nodes.Heartbeat
	GC          gc.Limits
	Jobs        rules.Limits
	Volumes     volumes.Limits
	// TLS proves this server to others and others to it; nil encrypts with a certificate that proves nothing.
	TLS *wire.Reloadable
	Log hclog.Logger
}

func (c Config) transport() (wire.TLS, error) {
	if c.TLS != nil {
		return c.TLS.TLS(), nil
	}
	return wire.SelfMade()
}
