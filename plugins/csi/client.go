package csi

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/mask"
	"github.com/open-nomad/open-nomad/internal/tracing"
)

// SocketPathMax is how long the path of a unix socket may be.
const SocketPathMax = 107

// Timeouts bound single calls; zero means the default of the kind. Controller calls and expansions have the
// deadline of their context instead, when there is one.
type Timeouts struct {
	// Probe bounds Probe; default 5 s.
	Probe time.Duration
	// Read bounds calls that change nothing; default 30 s.
	Read time.Duration
	// Change bounds calls that change something; default 2 min.
	Change time.Duration
	// Linger is how long the driver may continue a changing call after its caller's context ended, before it is
	// cancelled and the next call for the same object is sent; default a twelfth of Change.
	Linger time.Duration
}

// Config is what a client needs.
type Config struct {
	// Socket is the path of the plugin's unix socket on this host.
	Socket string
	// Dial connects to Socket; nil means to dial the unix socket. Tests reach plugins in memory with it.
	Dial Dialer
	// Connect makes the connection in the place of gRPC and Dial: simulations reach plugins with it by a call of a
	// function. Nil means gRPC.
	Connect  Connector
	Timeouts Timeouts
	// Observe is called after each call with the code of its outcome, such as "OK"; may be nil.
	Observe func(rpc, code string, took time.Duration)
	Log     hclog.Logger
}

// Dialer connects to the plugin at the socket path.
type Dialer func(ctx context.Context, socket string) (net.Conn, error)

// Connector makes a connection to the plugin at the socket path. The connection reports the same events to the handler
// of each call as gRPC does: the call was sent (stats.OutHeader) and the reply arrived (stats.InTrailer).
type Connector func(socket string, h stats.Handler) grpc.ClientConnInterface

func dialUnix(ctx context.Context, socket string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", socket)
}

// Client is a connection to one plugin. It connects with the first call and again when the plugin returns.
type Client struct {
	close      func() error
	identity   pb.IdentityClient
	controller pb.ControllerClient
	node       pb.NodeClient
	timeouts   Timeouts
	observe    func(rpc, code string, took time.Duration)
	log        hclog.Logger
	turns      turns
	secrets    mask.Masker

	mu   sync.Mutex
	caps *Capabilities
}

// CheckSocketPath refuses paths that the kernel cannot bind or connect to.
func CheckSocketPath(path string) error {
	if n := len(path); n > SocketPathMax {
		return fault.New(fault.Invalid, "socket path %q has %d bytes and the kernel allows %d: use a shorter data directory", path, n, SocketPathMax)
	}
	return nil
}

// New makes a client for the plugin at the socket. Nothing is sent before the first call.
func New(c Config) (*Client, error) {
	if err := CheckSocketPath(c.Socket); err != nil {
		return nil, err
	}
	cl := &Client{timeouts: c.Timeouts, observe: c.Observe, log: c.Log, close: func() error { return nil }}
	if cl.log == nil {
		cl.log = hclog.NewNullLogger()
	}
	var cc grpc.ClientConnInterface
	if c.Connect != nil {
		cc = c.Connect(c.Socket, watch{})
	} else {
		conn, err := cl.dial(c)
		if err != nil {
			return nil, err
		}
		cc, cl.close = conn, conn.Close
	}
	cl.identity, cl.controller, cl.node = pb.NewIdentityClient(cc), pb.NewControllerClient(cc), pb.NewNodeClient(cc)
	return cl, nil
}

// dial makes a connection that connects with the first call.
func (c *Client) dial(conf Config) (*grpc.ClientConn, error) {
	dial := conf.Dial
	if dial == nil {
		dial = dialUnix
	}
	dialer := func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx, conf.Socket) }
	// Dialling a socket costs next to nothing, and plugins come back at any moment.
	quick := backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 250 * time.Millisecond}
	cc, err := grpc.NewClient("passthrough:///csi",
		grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(dialer),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second}),
		grpc.WithIdleTimeout(0),
		grpc.WithNoProxy(),
		grpc.WithUnaryInterceptor(c.logged),
		grpc.WithStatsHandler(watch{}),
	)
	if err != nil {
		return nil, fault.New(fault.Invalid, "plugin socket %s: %w", conf.Socket, err)
	}
	return cc, nil
}

// Close ends the connection and the calls in flight.
func (c *Client) Close() error { return c.close() }

// logged logs calls by name, code and duration; never their content, which may be secret.
func (c *Client) logged(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	begin := time.Now()
	ctx, span := tracing.Start(ctx, "csi ", method)
	err := call(ctx, method, req, reply, cc, opts...)
	if err != nil {
		span.End(errors.New(status.Code(err).String()))
		c.log.Debug("csi call", "method", method, "code", status.Code(err), "took", time.Since(begin))
		return err
	}
	span.End(nil)
	if c.log.IsTrace() {
		c.log.Trace("csi call", "method", method, "took", time.Since(begin))
	}
	return err
}
