package session

import (
	"errors"
)

// Exit is an error with an exit code. An empty Text prints nothing.
type Exit struct {
	Code int
	Text string
}

func (e *Exit) Error() string { return e.Text }

// Code is the exit code of a command that returned err.
func Code(err error) int {
	if err == nil {
		return 0
	}
	var e *Exit
	if errors.As(err, &e) {
		return e.Code
	}
	return 1
}

// failure is an error as users read it: "Error doing something: why".
type failure struct {
	doing string
	err   error
}

func (f *failure) Error() string { return "Error " + f.doing + ": " + f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

// Failed adds the operation during which err happened.
func Failed(doing string, err error) error { return &failure{doing, err} }
