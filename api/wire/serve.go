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
	return serve(ctx, l, handlers, log, turns, usualLimits)
}

func serve(ctx context.Context, l net.Listener, handlers []Handler, log hclog.Logger, turns *Processors, bounds limits, more ...grpc.ServerOption) error {
	srv := newServer(handlers, log, turns, newBudget(bounds), more...)
	stop := context.AfterFunc(ctx, srv.Stop)
	defer srv.Stop()
	defer stop()
	err := srv.Serve(l)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func newServer(handlers []Handler, log hclog.Logger, turns *Processors, b *budget, more ...grpc.ServerOption) *grpc.Server {
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
		// A stream, as gRPC would read the whole request of any other method before anybody is asked.
		desc.Streams = append(desc.Streams, grpc.StreamDesc{StreamName: h.Name, Handler: bind(Recovered(h, log), turns, b)})
	}
	srv.RegisterService(desc, nil)
	return srv
}

// bind gives a handler the shape that gRPC calls.
func bind(h Handler, turns *Processors, b *budget) grpc.StreamHandler {
	return func(_ any, stream grpc.ServerStream) error {
		who := PeerOf(stream.Context())
		ctx := turns.For(stream.Context(), cmp.Or(who.Origin, who.Address))
		below, ok := grpc.ServerTransportStreamFromContext(ctx).(transportStream)
		if !ok {
			return toStatus(fault.New(fault.Internal, "%s: the length of a request cannot be read", h.Name))
		}
		c := served{receiver: newReceiver(below, b.stall), sender: sender{stream, b.stall}, budget: b, client: host(cmp.Or(who.Origin, who.Address))}
		return toStatus(c.call(ctx, h))
	}
}

// served is a call of a client.
type served struct {
	receiver
	sender
	budget *budget
	client string
}

// call reads a request when the budget has it, serves it, and sends the answer. Its share is taken until the answer has
// gone, as what is made of a request may live as long.
func (c served) call(ctx context.Context, h Handler) error {
	leave, err := c.budget.enter(ctx, c.client)
	if err != nil {
		return err
	}
	defer leave()
	n, err := c.length()
	if err != nil {
		return notReceived(h.Name, err)
	}
	give, err := c.budget.read(ctx, c.client, n)
	if err != nil {
		return err
	}
	defer give()
	buf, err := c.body(n)
	if err != nil {
		return notReceived(h.Name, err)
	}
	req := h.New()
	err = decodeRequest(ctx, buf.ReadOnlyData(), req)
	buf.Free()
	if err != nil {
		return fault.New(fault.Invalid, "%s: %w", h.Name, err)
	}
	resp, err := h.Serve(ctx, req)
	if err != nil {
		return err
	}
	return c.answer(ctx, h.Name, resp)
}

// answer encodes and sends an answer when the budget has it.
func (c served) answer(ctx context.Context, method string, resp any) error {
	gone, err := c.budget.hold(ctx, c.client, min(answerSize(resp), MaxMessageBytes))
	if err != nil {
		return err
	}
	defer gone()
	b, err := encodeAnswer(ctx, method, resp)
	if err != nil {
		return err
	}
	return c.send(b)
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
