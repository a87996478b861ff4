// Nomad-artifact downloads one artifact for the agent. The agent starts it in an empty directory, writes a request as JSON to
// its standard input and reads a reply as JSON from its standard output. The program drops its privileges before it opens
// a connection. It ends when its standard input ends.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// request is what the agent writes. Durations are nanoseconds; 0 means no limit.
type request struct {
	// Source is the source with its options as query parameters.
	Source   string
	Mode     string
	Headers  map[string]string
	Insecure bool
	// User is the uid and gid to change to; 0 keeps those of the agent.
	User int
	// Confined limits the files that the program can reach, where the kernel can. Extra are more of them: "d:rx:/opt".
	Confined bool
	Extra    []string
	// Keep is set when the downloaded file is kept in addition to its content; Cached when descriptor 3 is that file.
	Keep, Cached bool

	MaxBytes, MaxUnpacked         int64
	MaxFiles                      int
	HTTP, GCS, Git, Mercurial, S3 time.Duration
}

// reply is what the agent reads.
type reply struct{ Error string }

// Names in the directory of the download.
const (
	tmpDir  = "tmp"
	content = "out/content"
	kept    = "out/kept"
)

func main() {
	var req request
	in := json.NewDecoder(io.LimitReader(os.Stdin, 1<<20))
	if err := in.Decode(&req); err != nil {
		fmt.Fprintln(os.Stderr, "nomad-artifact is started by the nomad agent only")
		os.Exit(2)
	}
	signal.Ignore(unix.SIGPIPE, unix.SIGXFSZ) // a write beyond the limit is an error
	go endWithAgent()
	err := restrict(req)
	if err == nil {
		err = fetch(context.Background(), req)
	}
	var out reply
	if err != nil {
		out.Error = err.Error()
		if errors.Is(err, unix.EFBIG) {
			out.Error = "the download is larger than the limits of client.artifact allow: " + out.Error
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		os.Exit(1)
	}
}

// endWithAgent ends the program and those that it has started when the agent has ended or has cancelled the download.
func endWithAgent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	if unix.Getpgrp() == unix.Getpid() {
		_ = unix.Kill(0, unix.SIGKILL)
	}
	os.Exit(1)
}
