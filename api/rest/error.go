package rest

import (
	"fmt"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Error is an answer that is not a success.
type Error struct {
	Code int
	Text string
	Meta Meta
	// Method and Path are those of the request, the path after /v1/. Namespace is the one that the request names.
	Method, Path, Namespace string
}

func (e *Error) Error() string {
	return fmt.Sprintf("Unexpected response code: %d (%s)", e.Code, e.Text)
}

// classes lists every class that an HTTP code stands for; the first of a code wins.
var classes = []fault.Class{
	fault.Invalid, fault.NotFound, fault.Denied, fault.Conflict, fault.Exhausted,
	fault.Unavailable, fault.TooLarge, fault.Timeout, fault.Unimplemented, fault.Unauthenticated,
}

// Unwrap is the class of the error, so that errors.Is(err, fault.NotFound) holds for a 404.
func (e *Error) Unwrap() error {
	for _, c := range classes {
		if c.HTTPStatus() == e.Code {
			return c
		}
	}
	if e.Code >= 400 && e.Code < 500 {
		return fault.Invalid
	}
	return fault.Internal
}
