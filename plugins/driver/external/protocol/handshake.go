package protocol

import "github.com/open-nomad/open-nomad/plugins/program"

// Prefix may begin the name of an executable; the name of the driver is the rest.
const Prefix = "nomad-driver-"

// Kind is the kind of plugins that are task drivers.
var Kind = program.Kind{
	Noun: "driver", Protocol: "the protocol of task drivers", Prefix: Prefix, Optional: true,
	Cookie: "OPEN_NOMAD_DRIVER_PLUGIN", Value: "4f1a3c0e-task-driver", Version: 1,
}
