package frame

// CommandFiles is the number of descriptors that come with a command frame: a file with the [Command], then the standard
// input, output and error of the command.
const CommandFiles = 4

// DefaultPath is where programs are looked up when the environment of the task has no PATH.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Command is a program to run inside the task.
type Command struct {
	Args []string
	// TTY makes the standard input the controlling terminal of the command.
	TTY bool
}

// Encode makes the command the content of a file.
func (c *Command) Encode() []byte {
	var w writer
	w.list(c.Args)
	w.flag(c.TTY)
	return w
}

// Decode reads the content of a file.
func (c *Command) Decode(b []byte) error {
	r := reader{b: string(b)}
	c.Args, c.TTY = r.list(), r.flag()
	return r.end()
}
