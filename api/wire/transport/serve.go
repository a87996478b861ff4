package transport

import (
	"cmp"
	"context"
	"net"
	"runtime/debug"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
	"github.com/open-nomad/open-nomad/internal/tracing"
)

const serviceName = "nomad"

// callsMax limits the open calls of a connection; the caller queues more. Another server forwards the calls of all its
// clients, and blocking queries last for minutes.
const callsMax = 8192

// Serve serves calls that arrive on the listener until ctx ends or the listener closes. It returns when the last handler
// has returned; the contexts of handlers end with ctx. cpu limits what is computed for clients; nil means no limit.
func Serve(ctx context.Context, l net.Listener, handlers []wire.Handler, log hclog.Logger, cpu *cpulimit.Limit) error {
	return serve(ctx, l, handlers, log, cpu, requestTimeout)
}

func serve(ctx context.Context, l net.Listener, handlers []wire.Handler, log hclog.Logger, cpu *cpulimit.Limit, timeout time.Duration, more ...grpc.ServerOption) error {
	srv := newServer(handlers, log, cpu, newRequests(timeout), more...)
	stop := context.AfterFunc(ctx, srv.Stop)
	defer srv.Stop()
	defer stop()
	err := srv.Serve(l)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func newServer(handlers []wire.Handler, log hclog.Logger, cpu *cpulimit.Limit, r *requests, more ...grpc.ServerOption) *grpc.Server {
	srv := grpc.NewServer(append([]grpc.ServerOption{
		grpc.Creds(finished{}),
		grpc.ForceServerCodecV2(codec{}),
		grpc.ReadBufferSize(readBytes), grpc.WriteBufferSize(writeBytes),
		grpc.StaticStreamWindowSize(unreadBytes), grpc.StaticConnWindowSize(windowBytes), grpc.MaxHeaderListSize(headerBytes),
		grpc.MaxRecvMsgSize(MaxMessageBytes), grpc.MaxSendMsgSize(MaxMessageBytes),
		grpc.MaxConcurrentStreams(callsMax), grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveWait}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 3, PermitWithoutStream: true}),
	}, more...)...)
	desc := &grpc.ServiceDesc{ServiceName: serviceName}
	for _, h := range handlers {
		// gRPC reads the whole request of a unary method before it calls the handler; a stream is read by the handler.
		desc.Streams = append(desc.Streams, grpc.StreamDesc{StreamName: h.Name, Handler: bind(Recovered(h, log), cpu, r)})
	}
	srv.RegisterService(desc, nil)
	return srv
}

// bind makes the gRPC handler of a method.
func bind(h wire.Handler, cpu *cpulimit.Limit, r *requests) grpc.StreamHandler {
	return func(_ any, stream grpc.ServerStream) error {
		who := PeerOf(stream.Context())
		client := host(cmp.Or(who.Origin, who.Address))
		ctx := cpu.For(stream.Context(), client)
		req, done, err := r.receive(ctx, stream, client, h)
		if err != nil {
			return toStatus(err)
		}
		defer done()
		ctx, span := traced(ctx, h.Name)
		resp, err := h.Serve(ctx, req)
		span.End(err)
		if err != nil {
			return toStatus(err)
		}
		b, err := encodeAnswer(ctx, h.Name, resp)
		if err != nil {
			return toStatus(err)
		}
		return stream.SendMsg(b)
	}
}

// traceKey is the metadata with the traceparent of a call.
const traceKey = "traceparent"

// traced begins the span of a call that belongs to a trace.
func traced(ctx context.Context, method string) (context.Context, tracing.Span) {
	if !tracing.On() {
		return ctx, tracing.Span{}
	}
	if v := metadata.ValueFromIncomingContext(ctx, traceKey); len(v) == 1 {
		ctx = tracing.WithParent(ctx, v[0])
	}
	return tracing.Start(ctx, "rpc ", method)
}

// Recovered makes a handler that logs a panic and returns an internal fault.
func Recovered(h wire.Handler, log hclog.Logger) wire.Handler {
	serve := h.Serve
	h.Serve = func(ctx context.Context, req any) (resp any, err error) {
		defer func() {
			if r := recover(); r != nil {
				log.Error("method panicked", "method", h.Name, "panic", r, "stack", string(debug.Stack()))
				resp, err = nil, fault.New(fault.Internal, "%s panicked", h.Name)
			}
		}()
		return serve(ctx, req)
	}
	return h
}
