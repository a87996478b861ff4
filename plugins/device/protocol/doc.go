// Package protocol is the protocol between the agent and device plugins: device.proto, its generated code, the kind of
// plugins, and conversions to the types of plugins/device.
package protocol

//go:generate sh -c "cd ../../../tools/protogen && go run . ../../plugins/device/protocol/device.proto ../../plugins/program/schema"

import "github.com/open-nomad/open-nomad/plugins/program"

// Kind is the kind of plugins that are device plugins.
var Kind = program.Kind{
	Noun: "device plugin", Protocol: "the protocol of device plugins", Prefix: "nomad-device-",
	Cookie: "OPEN_NOMAD_DEVICE_PLUGIN", Value: "a91d02c7-device-plugin", Version: 1,
}
