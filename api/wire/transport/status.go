package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/open-nomad/open-nomad/api/fault"
)

// The pairs are one to one, so that a class is the same on the other side.
var codeOf = map[fault.Class]codes.Code{
	fault.Internal:        codes.Internal,
	fault.Invalid:         codes.InvalidArgument,
	fault.NotFound:        codes.NotFound,
	fault.Denied:          codes.PermissionDenied,
	fault.Conflict:        codes.FailedPrecondition,
	fault.Exhausted:       codes.ResourceExhausted,
	fault.Unavailable:     codes.Unavailable,
	fault.NotLeader:       codes.Aborted,
	fault.TooLarge:        codes.OutOfRange,
	fault.Timeout:         codes.DeadlineExceeded,
	fault.Unimplemented:   codes.Unimplemented,
	fault.Unauthenticated: codes.Unauthenticated,
}

var classOf = func() map[codes.Code]fault.Class {
	m := make(map[codes.Code]fault.Class, len(codeOf))
	for class, code := range codeOf {
		m[code] = class
	}
	return m
}()

// toStatus makes the error that gRPC sends: the class as its code, the text as its message.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	code := codeOf[fault.Of(err)]
	if code == codes.Internal {
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			code = codes.DeadlineExceeded
		case errors.Is(err, context.Canceled):
			code = codes.Canceled
		}
	}
	return withCall(status.New(code, err.Error()), err).Err()
}

// withCall adds the failed call of a plugin, if err is one, to the status.
func withCall(s *status.Status, err error) *status.Status {
	var call *fault.Call
	if !errors.As(err, &call) {
		return s
	}
	raw, err := json.Marshal(call)
	if err != nil {
		return s
	}
	if with, err := s.WithDetails(wrapperspb.String(string(raw))); err == nil {
		return with
	}
	return s
}

// callOf is the failed call of a plugin in a status; nil when there is none.
func callOf(s *status.Status) *fault.Call {
	for _, d := range s.Details() {
		raw, ok := d.(*wrapperspb.StringValue)
		call := new(fault.Call)
		if ok && json.Unmarshal([]byte(raw.GetValue()), call) == nil && call.Code != "" {
			return call
		}
	}
	return nil
}

// called is an error of the other side with the failed call of a plugin behind it.
type called struct {
	text string
	call *fault.Call
}

func (c *called) Error() string { return c.text }
func (c *called) Unwrap() error { return c.call }

// fromStatus is the inverse of toStatus. A deadline or cancellation of ctx keeps its own error
// reachable, so that errors.Is(err, context.Canceled) holds too.
func fromStatus(ctx context.Context, method string, err error) error {
	if err == nil {
		return nil
	}
	s, ok := status.FromError(err)
	if !ok {
		return fmt.Errorf("call %s: %w", method, err)
	}
	switch s.Code() {
	case codes.Canceled:
		if ctx.Err() == nil {
			return fault.New(fault.Unavailable, "call %s: the other side went away: %s", method, s.Message())
		}
		return fmt.Errorf("call %s: %w", method, context.Canceled)
	case codes.DeadlineExceeded:
		// The deadline may be over before the timer of ctx has fired.
		if end, bounded := ctx.Deadline(); ctx.Err() != nil || bounded && !time.Now().Before(end) {
			return fault.New(fault.Timeout, "call %s: %w", method, context.DeadlineExceeded)
		}
	}
	class, ok := classOf[s.Code()]
	if !ok {
		class = fault.Internal
	}
	if call := callOf(s); call != nil {
		return fault.Wrap(class, &called{text: s.Message(), call: call})
	}
	return fault.New(class, "%s", s.Message())
}
