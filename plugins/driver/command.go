package driver

import (
	"context"
	"io"
)

// Command is a program to run inside a running task; see [Execer].
type Command struct {
	// Args are the program and its arguments. A program without a slash is looked up in the PATH of the task.
	Args []string
	// TTY gives the command a terminal of its own. Its output then arrives on Stdout, and Stderr is not used.
	TTY bool
	// Stdin is the input; nil means none. The end of Stdin closes the command's input.
	Stdin io.Reader
	// Stdout and Stderr receive the output, maybe at the same time; nil discards it. An error of theirs ends the command.
	Stdout, Stderr io.Writer
	// Resize receives the sizes of the terminal; nil when it is never resized. Only with TTY.
	Resize <-chan TerminalSize
}

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct{ Width, Height int }

// Execer is a driver that runs commands inside running tasks. Its [Capabilities] have Exec set.
type Execer interface {
	// Exec runs a command as the task runs: with its user, environment, root, working directory and limits. It returns the
	// exit code (128 + signal after a signal) when the command has ended and all its output was written. When ctx ends
	// first, the command and all that it started are killed, and the error of ctx is returned. An error of class
	// fault.Invalid means that there is no such program or that it cannot be executed, one of class fault.Conflict that
	// the task has ended.
	Exec(ctx context.Context, id string, c *Command) (code int, err error)
}
