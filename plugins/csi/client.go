package csi

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api/fault"
)

// SocketPathMax is how long the path of a unix socket may be.
const SocketPathMax = 107

// Timeouts bound single calls; zero means the default of the kind.
type Timeouts struct {
	// Probe bounds Probe; default 5 s.
	Probe time.Duration
	// Read bounds calls that change nothing; default 30 s.
	Read time.Duration
	// Change bounds calls that change something; default 2 min.
	Change time.Duration
}

// Config is what a client needs.
type Config struct {
	// Socket is the path of the plugin's unix socket on this host.
	Socket   string
	Timeouts Timeouts
	Log      hclog.Logger
}

// Client is a connection to one plugin. It connects with the first call and again when the plugin returns.
type Client struct {
	cc         *grpc.ClientConn
	identity   pb.IdentityClient
	controller pb.ControllerClient
	node       pb.NodeClient
	timeouts   Timeouts
	log        hclog.Logger

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
	dialer := func(ctx context.Context, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", c.Socket)
	}
	cl := &Client{timeouts: c.Timeouts, log: c.Log}
	if cl.log == nil {
		cl.log = hclog.NewNullLogger()
	}
	// Dialling a socket costs next to nothing, and plugins come back at any moment.
	quick := backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 250 * time.Millisecond}
	cc, err := grpc.NewClient("passthrough:///csi",
		grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(dialer),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second}),
		grpc.WithIdleTimeout(0),
		grpc.WithNoProxy(),
		grpc.WithUnaryInterceptor(cl.logged),
	)
	if err != nil {
		return nil, fault.New(fault.Invalid, "plugin socket %s: %w", c.Socket, err)
	}
	cl.cc = cc
	cl.identity, cl.controller, cl.node = pb.NewIdentityClient(cc), pb.NewControllerClient(cc), pb.NewNodeClient(cc)
	return cl, nil
}

// Close ends the connection and the calls in flight.
func (c *Client) Close() error { return c.cc.Close() }

// logged tells of calls by name, code and duration; never of their content, which may be secret.
func (c *Client) logged(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	begin := time.Now()
	err := call(ctx, method, req, reply, cc, opts...)
	if err != nil {
		c.log.Debug("csi call", "method", method, "code", status.Code(err), "took", time.Since(begin))
	} else if c.log.IsTrace() {
		c.log.Trace("csi call", "method", method, "took", time.Since(begin))
	}
	return err
}

// bound gives ctx the deadline of the kind of call, unless the caller's is earlier.
func (c *Client) bound(ctx context.Context, k kind) (context.Context, context.CancelFunc) {
	limit, fallback := c.timeouts.Change, 2*time.Minute
	switch k {
	case kindProbe:
		limit, fallback = c.timeouts.Probe, 5*time.Second
	case kindRead:
		limit, fallback = c.timeouts.Read, 30*time.Second
	}
	if limit <= 0 {
		limit = fallback
	}
	return context.WithTimeout(ctx, limit)
}

// settle is how long a plugin has to notice that a call ran out of time or was given up: the next one for the same volume
// must not overlap with it.
const settle = 50 * time.Millisecond

// call makes one call of a kind within its deadline and explains its error.
func call[Req, Resp any](ctx context.Context, c *Client, k kind, rpc string, fn func(context.Context, Req, ...grpc.CallOption) (*Resp, error), req Req) (*Resp, error) {
	ctx, cancel := c.bound(ctx, k)
	defer cancel()
	resp, err := fn(ctx, req)
	if err != nil {
		e := explain(k, rpc, err)
		if e.Class() == fault.Unimplemented {
			c.forget()
		}
		if code := status.Code(err); code == codes.DeadlineExceeded || code == codes.Canceled {
			time.Sleep(settle)
		}
		return nil, e
	}
	if resp == nil {
		return nil, hole(rpc, "an empty reply")
	}
	return resp, nil
}
