package main

import (
	"encoding/json"
	"io"
	"os"
	"sync"
	"time"
)

// The types of this file are those of message.go in the agent's package client/templates. Both programs come from one build.

// spec is the first message to the program.
type spec struct {
	Templates []source
	// Env is what the functions env and envOrDefault read, as NAME=value.
	Env       []string
	Namespace string
	// Token is the identity of the task for the API.
	Token string
	// Denied are the functions that are refused, as patterns.
	Denied []string
	// MemoryMax and ContentMax are in bytes, ProcessorMax is the processor time of one execution of a template.
	MemoryMax    uint64
	ContentMax   int
	ProcessorMax time.Duration
	Calls        calls
}

// calls is how services and variables are read.
type calls struct {
	// MaxStale is how far behind the leader the data of another server may be; 0 reads from the leader.
	MaxStale time.Duration
	// Wait bounds a call that waits for a change; 0 means 5 minutes.
	Wait time.Duration
	// Attempts is how often a call is tried before the templates fail; 0 is no limit.
	Attempts int
	// Backoff is the first pause after a failed call, which doubles up to BackoffMax; 0 means 250 ms and 5 s.
	Backoff, BackoffMax time.Duration
}

// source is one template.
type source struct {
	Name                  string
	Text                  string
	LeftDelim, RightDelim string
	ErrMissingKey         bool
	Once                  bool
	Wait                  wait
}

// wait is how long data must be unchanged before a template is rendered again. Max bounds that; 0 is no wait.
type wait struct{ Min, Max time.Duration }

// update is each further message to the program.
type update struct {
	// Token replaces the token, unless it is empty.
	Token string
	// Files are files that were asked for and have changed.
	Files map[string]file
}

// file is a file of the task.
type file struct {
	Content string
	// Missing is why there is no content yet; Refused is why there will be none.
	Missing, Refused string
}

// report is a message of the program.
type report struct {
	// Rendered is set when the template Index has new content.
	Rendered bool
	Index    int
	Content  []byte
	// Missing is what the templates wait for. It is set before every template is rendered.
	Missing []string
	// Watch are the files that templates read.
	Watch []string
	// Warning is an error of a call that is repeated.
	Warning string
	// Error is why the program ends.
	Error string
}

// output writes reports.
type output struct {
	mu sync.Mutex
	to io.Writer
}

func (o *output) send(r *report) {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // a report can be encoded
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.to.Write(append(b, '\n')); err != nil {
		os.Exit(1) // the agent has ended
	}
}

// fail ends the program.
func (o *output) fail(text string) {
	o.send(&report{Error: text})
	os.Exit(1)
}
