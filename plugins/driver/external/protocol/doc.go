// Package protocol is the protocol between the agent and external task drivers: driver.proto, its generated code, the
// handshake, and conversions to the types of plugins/driver.
package protocol

//go:generate sh -c "cd ../../../../tools/protogen && go run . ../../plugins/driver/external/protocol/driver.proto ../../plugins/program/schema"
