package wire

import (
	"cmp"
	"context"
	"net"
	"runtime/debug"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/open-nomad/open-nomad/api/fault"
)

const serviceName = "nomad"

// callsMax is how many calls a connection may have open; the caller keeps others waiting. Another server brings those of
// all its clients, who wait for news for minutes.
const callsMax = 8192

// Serve answers calls that arrive on the listener until ctx ends or the listener closes. It returns
// when the last handler has; handlers see their context end with ctx. The hosts that call share the turns; nil does
// not bound them.
func Serve(ctx context.Context, l net.Listener, handlers []Handler, log hclog.Logger, turns *Processors) error {
	return serve(ctx, l, handlers, log, turns)
}

func serve(ctx context.Context, l net.Listener, handlers []Handler, log hclog.Logger, turns *Processors, more ...grpc.ServerOption) error {
	srv := newServer(handlers, log, turns, more...)
	stop := context.AfterFunc(ctx, srv.Stop)
	defer srv.Stop()
	defer stop()
	err := srv.Serve(l)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func newServer(handlers []Handler, log hclog.Logger, turns *Processors, more ...grpc.ServerOption) *grpc.Server {
	srv := grpc.NewServer(append([]grpc.ServerOption{
		grpc.Creds(finished{}),
		grpc.ForceServerCodecV2(codec{}),
		grpc.ReadBufferSize(readBytes), grpc.WriteBufferSize(writeBytes),
		grpc.InitialWindowSize(windowBytes), grpc.InitialConnWindowSize(windowBytes),
		grpc.MaxRecvMsgSize(MaxMessageBytes), grpc.MaxSendMsgSize(MaxMessageBytes),
		grpc.MaxConcurrentStreams(callsMax), grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveWait}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 3, PermitWithoutStream: true}),
	}, more...)...)
	desc := &grpc.ServiceDesc{ServiceName: serviceName}
	for _, h := range handlers {
		desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: h.Name, Handler: bind(Recovered(h, log), turns)})
	}
	srv.RegisterService(desc, nil)
	return srv
}

// bind gives a handler the shape that gRPC calls.
func bind(h Handler, turns *Processors) grpc.MethodHandler {
	return func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		who := PeerOf(ctx)
		ctx = turns.For(ctx, cmp.Or(who.Origin, who.Address))
		req := h.New()
		in := &incoming{ctx: ctx, into: req}
		err := decode(in)
		if err == nil {
			err = in.err
		}
		if err != nil {
			return nil, toStatus(fault.New(fault.Invalid, "%s: %w", h.Name, err))
		}
		resp, err := h.Serve(ctx, req)
		if err != nil {
			return nil, toStatus(err)
		}
		b, err := encodeAnswer(ctx, h.Name, resp)
		if err != nil {
			return nil, toStatus(err)
		}
		return b, nil
	}
}

// Recovered makes a handler answer an internal fault, and log, where it would panic.
func Recovered(h Handler, log hclog.Logger) Handler {
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
