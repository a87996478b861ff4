package examples

import "embed"

// Files has all examples by file name.
//
//go:embed *.hcl *.json
var Files embed.FS

// Short is a job file without explanations: what "job init -short" writes.
//
//go:embed service.nomad.hcl
var Short string

// Long is a job file that explains its blocks: what "job init" writes.
//
//go:embed csi-volume.nomad.hcl
var Long string

// Volume is a volume file that explains its keys: what "volume init" writes.
//
//go:embed volume.hcl
var Volume string

// VolumeJSON is a volume file in JSON: what "volume init -json" writes.
//
//go:embed volume.json
var VolumeJSON string

// Quota is a quota file that explains its keys: what "quota init" writes.
//
//go:embed quota.hcl
var Quota string

// QuotaJSON is a quota file in JSON: what "quota init -json" writes.
//
//go:embed quota.json
var QuotaJSON string

// Variable is a variable file that explains its keys: what "var init" writes.
//
//go:embed variable.hcl
var Variable string

// VariableJSON is a variable file in JSON: what "var init -out json" writes.
//
//go:embed variable.json
var VariableJSON string

// HostVolume is a file of a host volume that explains its keys: what "volume init -type host" writes.
//
//go:embed host-volume.hcl
var HostVolume string

// HostVolumeJSON is a file of a host volume in JSON: what "volume init -type host -json" writes.
//
//go:embed host-volume.json
var HostVolumeJSON string
