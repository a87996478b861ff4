package api

import "time"

// ExecOpenRequest opens a session for one command in a task. It starts nothing, so it may be lost or repeated; the first
// [ExecRequest] starts the command.
type ExecOpenRequest struct {
	AllocID string `msg:",omitempty"`
	// SessionID is random: whoever has it and the rights on the allocation uses the session.
	SessionID string   `msg:",omitempty"`
	Task      string   `msg:",omitempty"`
	Command   []string `msg:",omitempty"`
	// Action is an action of the task to run instead of Command.
	Action string `msg:",omitempty"`
	TTY    bool   `msg:",omitempty"`
	// Accessor is the token of the caller; the servers set it. From is the address that the agent saw.
	Accessor string `msg:",omitempty"`
	From     string `msg:",omitempty"`
	QueryOptions
}

// ExecOpenResponse is the response of opening a session.
type ExecOpenResponse struct {
	// OnNode is set when the task sees the files of the node: the session is used through ClientAlloc.NodeExec, which needs
	// one more right.
	OnNode bool `msg:",omitempty"`
}

// ExecRequest continues a session. A request with input or a size waits until a part of the input is accepted or the command
// has ended, and returns no output; any other one waits for output or the end of the command. Requests may be repeated and come in any order: offsets count bytes from the start of the session.
type ExecRequest struct {
	AllocID   string `msg:",omitempty"`
	SessionID string `msg:",omitempty"`
	// Input begins at InputOffset; with InputEnd nothing follows it.
	Input       []byte `msg:",omitempty"`
	InputOffset int64  `msg:",omitempty"`
	InputEnd    bool   `msg:",omitempty"`
	// Width and Height are the size of the terminal, SizeNumber counts its changes from 1.
	Width      int    `msg:",omitempty"`
	Height     int    `msg:",omitempty"`
	SizeNumber uint64 `msg:",omitempty"`
	// Received is how many bytes of output the caller has.
	Received int64 `msg:",omitempty"`
	// Wait is how long the request may wait.
	Wait time.Duration `msg:",omitempty"`
	// Stop ends the command and the session.
	Stop bool `msg:",omitempty"`
	QueryOptions
}

// ExecResponse is what a session has for its caller.
type ExecResponse struct {
	// Accepted is how many bytes of input the session has accepted.
	Accepted int64 `msg:",omitempty"`
	// Output begins at Offset.
	Output []ExecOutput `msg:",omitempty"`
	Offset int64        `msg:",omitempty"`
	// Exited is set when the command has ended. For a request without input, nothing follows Output then.
	Exited   bool `msg:",omitempty"`
	ExitCode int  `msg:",omitempty"`
}

// ExecOutput is a part of the output of a command.
type ExecOutput struct {
	Stderr bool   `msg:",omitempty"`
	Data   []byte `msg:",omitempty"`
}

// OfAlloc implements [OfAlloc].
func (r *ExecOpenRequest) OfAlloc() string { return r.AllocID }

// SetAccessor implements [Attributed].
func (r *ExecOpenRequest) SetAccessor(id string) { r.Accessor = id }

// OfAlloc implements [OfAlloc].
func (r *ExecRequest) OfAlloc() string { return r.AllocID }
