package api

//msgp:ignore TerminalSize ExecStreamingIO ExecStreamingInput ExecStreamingOutput ExecStreamingExit ExecHandshake JobAction

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct {
	Height int `json:"height,omitempty"`
	Width  int `json:"width,omitempty"`
}

// ExecStreamingIO is a part of an input or output of a command, or its end.
type ExecStreamingIO struct {
	Data  []byte `json:"data,omitempty"`
	Close bool   `json:"close,omitempty"`
}

// ExecStreamingInput is a message to the WebSocket of a command. An empty one only shows that the client is there.
type ExecStreamingInput struct {
	Stdin   *ExecStreamingIO `json:"stdin,omitempty"`
	TTYSize *TerminalSize    `json:"tty_size,omitempty"`
}

// ExecStreamingExit is how a command ended.
type ExecStreamingExit struct {
	ExitCode int `json:"exit_code,omitempty"`
}

// ExecStreamingOutput is a message from the WebSocket of a command. The last one has Exited and Result.
type ExecStreamingOutput struct {
	Stdout *ExecStreamingIO   `json:"stdout,omitempty"`
	Stderr *ExecStreamingIO   `json:"stderr,omitempty"`
	Exited bool               `json:"exited,omitempty"`
	Result *ExecStreamingExit `json:"result,omitempty"`
}

// ExecHandshake is the first message to a WebSocket with ws_handshake=true: browsers cannot set the header of the token.
type ExecHandshake struct {
	// Version is 1.
	Version   int    `json:"version"`
	AuthToken string `json:"auth_token" secret:"true"`
}

// JobAction is an action of a job with the task that it runs in.
type JobAction struct {
	Action
	TaskName      string
	TaskGroupName string
}
