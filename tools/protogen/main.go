// Program protogen writes the Go code of a .proto file to files zz_*.go in its directory, without protoc:
//
//	go run . ../../plugins/driver/external/protocol/driver.proto
//
// It compiles the file and passes it to protoc-gen-go and protoc-gen-go-grpc, which are tools of this module.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: protogen FILE.proto [DIRECTORY-OF-IMPORTS...]")
		os.Exit(2)
	}
	if err := generate(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate(path string, imports []string) error {
	dir, name := filepath.Split(path)
	c := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: append([]string{dir}, imports...)},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := c.Compile(context.Background(), name)
	if err != nil {
		return err
	}
	var all []*descriptorpb.FileDescriptorProto // each after what it imports
	for i := range files[0].Imports().Len() {
		all = append(all, protodesc.ToFileDescriptorProto(files[0].Imports().Get(i)))
	}
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{name}, Parameter: proto.String("paths=source_relative"),
		ProtoFile: append(all, protodesc.ToFileDescriptorProto(files[0])),
	})
	if err != nil {
		return err
	}
	for _, tool := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		cmd := exec.Command("go", "tool", tool)
		cmd.Stdin, cmd.Stderr = bytes.NewReader(request), os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s: %w", tool, err)
		}
		var response pluginpb.CodeGeneratorResponse
		if err := proto.Unmarshal(out, &response); err != nil {
			return err
		}
		if response.Error != nil {
			return fmt.Errorf("%s: %s", tool, response.GetError())
		}
		for _, f := range response.File {
			if err := os.WriteFile(filepath.Join(dir, "zz_"+f.GetName()), []byte(f.GetContent()), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
