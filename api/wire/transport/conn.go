package transport

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/tracing"
)

// Limits of every connection.
const (
	// MaxMessageBytes limits one message: a plan, the assignments of a node.
	MaxMessageBytes = 64 << 20
	// readBytes is small because TLS buffers whole records.
	readBytes  = 1 << 10
	writeBytes = 4 << 10
	// windowBytes is static: estimating it costs a ping for nearly every small message.
	windowBytes = 4 << 20
	// unreadBytes is the flow-control window of a call: what a client may send before the server reads the request.
	// headerBytes limits its metadata.
	unreadBytes   = 64 << 10
	headerBytes   = 16 << 10
	keepaliveTime = 30 * time.Second
	keepaliveWait = 10 * time.Second
	// pathPrefix precedes a method's name in the HTTP/2 path.
	pathPrefix = "/" + serviceName + "/"
)

// Conn calls the methods of one process. It connects on first use and reconnects after failures.
type Conn struct {
	cc *grpc.ClientConn
}

// Connect makes a connection to a server. It does not dial before the first call.
func Connect(address string, d Dialer) (*Conn, error) {
	return newConn(address, func(ctx context.Context, _ string) (net.Conn, error) {
		return d.Dial(ctx, address, wire.ProtocolRPC)
	}, instance(d.Instance)...)
}

// instance adds the name of the calling process of a node to every call.
func instance(name string) []grpc.DialOption {
	if name == "" {
		return nil
	}
	return []grpc.DialOption{grpc.WithUnaryInterceptor(
		func(ctx context.Context, method string, req, resp any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return invoke(metadata.AppendToOutgoingContext(ctx, instanceKey, name), method, req, resp, cc, opts...)
		})}
}

func newConn(address string, dial func(context.Context, string) (net.Conn, error), more ...grpc.DialOption) (*Conn, error) {
	cc, err := grpc.NewClient("passthrough:///"+address, append(more,
		grpc.WithContextDialer(dial),
		grpc.WithTransportCredentials(finished{}),
		grpc.WithReadBufferSize(readBytes), grpc.WithWriteBufferSize(writeBytes),
		grpc.WithInitialWindowSize(windowBytes), grpc.WithInitialConnWindowSize(windowBytes),
		grpc.WithIdleTimeout(0),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveWait, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
			MinConnectTimeout: dialTimeout,
		}),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(codec{}),
			grpc.MaxCallRecvMsgSize(MaxMessageBytes), grpc.MaxCallSendMsgSize(MaxMessageBytes)),
	)...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return &Conn{cc: cc}, nil
}

// Ready waits until the connection is established. When it fails, nothing was sent.
func (c *Conn) Ready(ctx context.Context) error {
	for {
		switch state := c.cc.GetState(); state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure, connectivity.Shutdown:
			return fault.New(fault.Unavailable, "%s is not reachable", c.cc.CanonicalTarget())
		default:
			c.cc.Connect()
			if !c.cc.WaitForStateChange(ctx, state) {
				return fault.New(fault.Unavailable, "%s did not accept a connection: %w", c.cc.CanonicalTarget(), ctx.Err())
			}
		}
	}
}

// Invoke calls a method by its name. It implements [wire.Caller].
func (c *Conn) Invoke(ctx context.Context, method string, req, resp any) error {
	if parent := tracing.Parent(ctx); parent != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, traceKey, parent)
	}
	return fromStatus(ctx, method, c.cc.Invoke(ctx, pathPrefix+method, req, resp))
}

// Close ends the connection and all its calls.
func (c *Conn) Close() error { return c.cc.Close() }
