package program

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/open-nomad/open-nomad/api/fault"
)

var codesOf = map[fault.Class]codes.Code{
	fault.Invalid: codes.InvalidArgument, fault.NotFound: codes.NotFound, fault.Denied: codes.PermissionDenied, fault.Conflict: codes.FailedPrecondition,
	fault.Exhausted: codes.ResourceExhausted, fault.Unavailable: codes.Unavailable, fault.Timeout: codes.DeadlineExceeded, fault.Unimplemented: codes.Unimplemented,
}

// ToStatus makes a gRPC status of an error of a driver; nil stays nil.
func ToStatus(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	code, known := codesOf[fault.Of(err)]
	if !known {
		code = codes.Internal
	}
	return status.Error(code, err.Error())
}

// FromStatus makes an error with a class of a gRPC status. It is the error of ctx once that has ended.
func FromStatus(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s, _ := status.FromError(err)
	class := fault.Internal
	for c, code := range codesOf {
		if code == s.Code() {
			class = c
		}
	}
	if s.Code() == codes.AlreadyExists {
		class = fault.Conflict
	}
	const textMax = 4096
	text := s.Message()
	return fault.New(class, "%s", text[:min(len(text), textMax)])
}
