// Package schema describes the configuration of plugins that are programs of their own: schema.proto with its generated code,
// the check of a block against a schema, and the schema of a Go struct.
package schema

//go:generate sh -c "cd ../../../tools/protogen && go run . ../../plugins/program/schema/schema.proto"
