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
