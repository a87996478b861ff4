package api

//msgp:ignore StreamFrame

// StreamFrame is one frame of a file or log stream.
type StreamFrame struct {
	Offset    int64  `json:",omitempty" msg:",omitempty"`
	Data      []byte `json:",omitempty" msg:",omitempty"`
	File      string `json:",omitempty" msg:",omitempty"`
	FileEvent string `json:",omitempty" msg:",omitempty"`
}
