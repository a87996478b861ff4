package csi

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Action is what to do after a call.
type Action uint8

// Actions.
const (
	// Final errors stay the same however often the call is repeated.
	Final Action = iota
	// Retry errors pass: repeat with backoff as long as the result is wanted.
	Retry
	// RetryFew errors may pass: repeat a few times, then give up.
	RetryFew
	// Done errors say that there is nothing left to do.
	Done
	// Exhausted errors are limits: try elsewhere, or later.
	Exhausted
)

func (a Action) String() string {
	return [...]string{"final", "retry", "retry a few times", "done", "exhausted"}[a]
}

// kind is what a call does; the same code means different things to different kinds.
type kind uint8

const (
	kindProbe  kind = iota // answers whether the plugin lives
	kindRead               // changes nothing
	kindMake               // creates a volume or snapshot
	kindAttach             // attaches to a node
	kindUse                // stages or publishes
	kindUndo               // deletes, detaches, unpublishes, unstages
	kindGrow               // expands
)

// rule is what a code means: the default action, exceptions by kind, and the class that callers see.
type rule struct {
	class  fault.Class
	action Action
	except map[kind]Action
}

// rules is the one table for all calls. Codes that are missing behave like Unknown.
var rules = map[codes.Code]rule{
	codes.Canceled:           {class: fault.Unavailable, action: Retry},
	codes.DeadlineExceeded:   {class: fault.Timeout, action: Retry},
	codes.Unavailable:        {class: fault.Unavailable, action: Retry},
	codes.Aborted:            {class: fault.Unavailable, action: Retry},
	codes.Unknown:            {class: fault.Internal, action: RetryFew, except: map[kind]Action{kindUndo: Retry}},
	codes.Internal:           {class: fault.Internal, action: RetryFew, except: map[kind]Action{kindUndo: Retry}},
	codes.DataLoss:           {class: fault.Internal, action: Final},
	codes.InvalidArgument:    {class: fault.Invalid, action: Final},
	codes.OutOfRange:         {class: fault.Invalid, action: Final},
	codes.AlreadyExists:      {class: fault.Conflict, action: Final},
	codes.NotFound:           {class: fault.NotFound, action: Final, except: map[kind]Action{kindUndo: Done, kindAttach: RetryFew, kindUse: RetryFew}},
	codes.FailedPrecondition: {class: fault.Conflict, action: Final, except: map[kind]Action{kindAttach: Retry, kindUndo: Retry}},
	codes.ResourceExhausted:  {class: fault.Exhausted, action: Exhausted},
	codes.PermissionDenied:   {class: fault.Denied, action: Final, except: map[kind]Action{kindUndo: Retry}},
	codes.Unauthenticated:    {class: fault.Denied, action: Final, except: map[kind]Action{kindUndo: Retry}},
	codes.Unimplemented:      {class: fault.Unimplemented, action: Final},
}

// Error is a plugin's refusal, or the news that it could not be asked.
type Error struct {
	// RPC is the name of the call, such as NodeStageVolume.
	RPC string
	// Code is the gRPC code in its usual spelling.
	Code string
	// Text is the plugin's own message.
	Text   string
	Action Action
	// Uncertain is set when the call may have had its effect all the same.
	Uncertain bool
	class     fault.Class
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%s)", e.RPC, e.Text, e.Code) }

// Unwrap makes errors.Is find the fault class.
func (e *Error) Unwrap() error { return e.class }

// Class is the fault class of the error.
func (e *Error) Class() fault.Class { return e.class }

func explain(k kind, rpc string, err error) *Error {
	st, _ := status.FromError(err)
	code := st.Code()
	r, known := rules[code]
	if !known {
		r = rules[codes.Unknown]
	}
	action := r.action
	if special, ok := r.except[k]; ok {
		action = special
	}
	return &Error{RPC: rpc, Code: code.String(), Text: st.Message(), Action: action, Uncertain: uncertain(code), class: r.class}
}

func uncertain(c codes.Code) bool {
	switch c {
	case codes.Canceled, codes.Unknown, codes.DeadlineExceeded, codes.Unavailable, codes.Internal, codes.Aborted:
		return true
	}
	return false
}

// hole is the error for a reply that lacks what it must have.
func hole(rpc, what string) error {
	return &Error{RPC: rpc, Code: "invalid reply", Text: "the plugin answered " + what, Action: Final, class: fault.Internal}
}

// ActionOf says what to do about err: what the table says of a plugin's error, and for other errors what
// their class says.
func ActionOf(err error) Action {
	var e *Error
	if errors.As(err, &e) {
		return e.Action
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Retry
	case errors.Is(err, fault.Unavailable), errors.Is(err, fault.NotLeader), errors.Is(err, fault.Timeout):
		return Retry
	case errors.Is(err, fault.Exhausted):
		return Exhausted
	}
	return Final
}

// ignoreDone turns "already done" into success, for calls that undo something.
func ignoreDone(err error) error {
	if err != nil && ActionOf(err) == Done {
		return nil
	}
	return err
}
