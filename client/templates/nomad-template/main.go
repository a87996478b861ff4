// Nomad-template renders the templates of one task for the agent that started it. It reads what to render from its standard
// input, asks the API on file descriptor 3 for data, and writes what it has rendered, or why not, to its standard output: see
// message.go. It opens no file: the agent reads and writes the files of the task.
//
// Templates are the text of users. The program has no environment, runs as nobody when the agent is root, and ends with an
// error when a template uses too much memory or processor time. It ends when its standard input ends.
package main

import (
	"encoding/json"
	"io"
	"log"
	"os"

	"golang.org/x/sys/unix"
)

// nobody is the user and the group of the program when root starts it.
const nobody = 65534

func main() {
	log.SetOutput(io.Discard) // the library logs values
	os.Clearenv()
	out := &output{to: os.Stdout}
	if err := dropRights(); err != nil {
		out.fail("give up the rights of root: " + err.Error())
	}
	in := json.NewDecoder(os.Stdin)
	var s spec
	if err := in.Decode(&s); err != nil {
		out.fail("read what to render: " + err.Error())
	}
	limitMemory(s.MemoryMax)
	r, err := newRenderer(&s, out)
	if err != nil {
		out.fail(err.Error())
	}
	go r.readUpdates(in)
	if err := r.run(); err != nil {
		out.fail(err.Error())
	}
}

func dropRights() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return nil
	}
	if err := setGroups(); err != nil {
		return err
	}
	// A change of the user removes the signal that the kernel sends when the agent dies.
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}
