package fake

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
)

// Conn is a connection to a driver in the same process: a call is a call of a function, without a network and
// without goroutines that outlive it. It fits [csi.Connector].
func (d *Driver) Conn(h stats.Handler) grpc.ClientConnInterface {
	c := &conn{driver: d, stats: h, methods: map[string]grpc.MethodDesc{}}
	c.add(&pb.Identity_ServiceDesc)
	conf := d.config()
	if !conf.NoController {
		c.add(&pb.Controller_ServiceDesc)
	}
	if !conf.NoNode {
		c.add(&pb.Node_ServiceDesc)
	}
	return c
}

type conn struct {
	driver  *Driver
	stats   stats.Handler
	methods map[string]grpc.MethodDesc
}

func (c *conn) add(s *grpc.ServiceDesc) {
	for _, m := range s.Methods {
		c.methods["/"+s.ServiceName+"/"+m.MethodName] = m
	}
}

// Invoke implements [grpc.ClientConnInterface]. Requests and replies are copies.
func (c *conn) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	process := c.driver.living(ctx)
	if process.ended() {
		return status.Error(codes.Unavailable, "the plugin does not run")
	}
	c.stats.HandleRPC(ctx, &stats.OutHeader{Client: true})
	err := c.serve(context.WithValue(ctx, lifeKey{}, process), method, args, reply)
	if process.ended() {
		return status.Error(codes.Unavailable, "the plugin went away")
	}
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	c.stats.HandleRPC(ctx, &stats.InTrailer{Client: true})
	return err
}

func (c *conn) serve(ctx context.Context, method string, args, reply any) error {
	m, ok := c.methods[method]
	if !ok {
		return status.Errorf(codes.Unimplemented, "unknown method %s", method[strings.LastIndexByte(method, '/')+1:])
	}
	decode := func(into any) error {
		proto.Merge(into.(proto.Message), args.(proto.Message))
		return nil
	}
	resp, err := m.Handler(c.driver, ctx, decode, c.driver.intercept)
	if err != nil {
		return status.Convert(err).Err()
	}
	proto.Merge(reply.(proto.Message), resp.(proto.Message))
	return nil
}

// NewStream implements [grpc.ClientConnInterface]; no call of ours is a stream.
func (*conn) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "streams are not served")
}
