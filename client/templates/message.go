package templates

import "time"

// The types of this file are those of message.go of the program. Both come from one build.

// spec is the first message to the program.
type spec struct {
	Templates    []Source
	Env          []string
	Namespace    string
	Token        string
	Denied       []string
	MemoryMax    uint64
	ContentMax   int
	ProcessorMax time.Duration
	Calls        Calls
}

// Calls is how services and variables are read.
type Calls struct {
	// MaxStale is how far behind the leader the data of another server may be; 0 reads from the leader.
	MaxStale time.Duration
	// Wait bounds a call that waits for a change; 0 means 5 minutes.
	Wait time.Duration
	// Attempts is how often a call is tried before the templates fail; 0 is no limit.
	Attempts int
	// Backoff is the first pause after a failed call, which doubles up to BackoffMax; 0 means 250 ms and 5 s.
	Backoff, BackoffMax time.Duration
}

// update is each further message to the program.
type update struct {
	// Token replaces the token, unless it is empty.
	Token string
	// Files are files that were asked for and have changed.
	Files map[string]File
}

// report is a message of the program.
type report struct {
	// Rendered is set when the template Index has new content.
	Rendered bool
	Index    int
	Content  []byte
	// Missing is what the templates wait for, Watch the files that they read. They come with every report without other content.
	Missing []string
	Watch   []string
	// Warning is an error of a call that is repeated, Error the reason why the program ends.
	Warning string
	Error   string
}
