// Package fault has the classes of errors. A class decides what a caller may do next and which
// HTTP and gRPC code it sees; it survives RPC, so errors.Is(err, fault.NotFound) holds on the other side.
//
// The list is append-only: numbers are on the wire.
package fault

import (
	"errors"
	"fmt"
	"net/http"
)

// Class is a class of errors; it is itself an error so that errors.Is can name it.
type Class uint8

// The classes.
const (
	// Internal is a failure of ours; the zero class.
	Internal Class = iota
	// Invalid is input that can never work: HTTP 400.
	Invalid
	// NotFound names an object that does not exist: HTTP 404.
	NotFound
	// Denied is a missing permission: HTTP 403.
	Denied
	// Conflict is a request that the present state refuses: HTTP 409.
	Conflict
	// Exhausted is a limit reached: HTTP 429.
	Exhausted
	// Unavailable is a part that cannot answer now; retrying helps: HTTP 503.
	Unavailable
	// NotLeader is an answer from a server that does not lead; retried by the RPC layer: HTTP 503.
	NotLeader
	// TooLarge is a body over the limit: HTTP 413.
	TooLarge
	// Timeout is a wait that reached its bound: HTTP 504.
	Timeout
	// Unimplemented is a call that the other side does not know: HTTP 501.
	Unimplemented
	// Unauthenticated is a credential that is not valid: HTTP 401.
	Unauthenticated
)

var names = [...]string{
	"internal", "invalid", "not found", "denied", "conflict", "exhausted",
	"unavailable", "not leader", "too large", "timeout", "unimplemented", "unauthenticated",
}

var statuses = [...]int{
	http.StatusInternalServerError, http.StatusBadRequest, http.StatusNotFound,
	http.StatusForbidden, http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable,
	http.StatusServiceUnavailable, http.StatusRequestEntityTooLarge, http.StatusGatewayTimeout, http.StatusNotImplemented,
	http.StatusUnauthorized,
}

// String is the class in words.
func (c Class) String() string {
	if int(c) < len(names) {
		return names[c]
	}
	return "internal"
}

// Error makes a class usable as the target of errors.Is.
func (c Class) Error() string { return c.String() }

// HTTPStatus is the code that the HTTP server answers.
func (c Class) HTTPStatus() int {
	if int(c) < len(statuses) {
		return statuses[c]
	}
	return http.StatusInternalServerError
}

type classed struct {
	class Class
	err   error
}

func (e *classed) Error() string   { return e.err.Error() }
func (e *classed) Unwrap() []error { return []error{e.class, e.err} }

// New makes an error of the class. %w in the format keeps causes reachable.
func New(c Class, format string, args ...any) error {
	return &classed{c, fmt.Errorf(format, args...)}
}

// Wrap gives err a class and keeps its text; nil stays nil.
func Wrap(c Class, err error) error {
	if err == nil {
		return nil
	}
	return &classed{c, err}
}

// Of returns the outermost class of err, Internal when it has none.
func Of(err error) Class {
	var e *classed
	if errors.As(err, &e) {
		return e.class
	}
	var c Class
	if errors.As(err, &c) {
		return c
	}
	return Internal
}
