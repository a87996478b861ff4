package endpoint

import (
	"encoding/json"
	"net/http"

	"github.com/open-nomad/open-nomad/api"
)

// Frames writes the pieces of a stream as JSON frames, or as they are.
type Frames struct {
	Call *Call
	// Plain leaves the frames out.
	Plain bool
	begun bool
}

// Begun reports whether anything was sent.
func (f *Frames) Begun() bool { return f.begun }

// Begin sends the header.
func (f *Frames) Begin(contentType string) {
	if f.begun {
		return
	}
	f.begun = true
	f.Call.W.Header().Set("Content-Type", contentType)
	f.Call.W.Header().Set("Cache-Control", "no-cache")
	f.Call.W.WriteHeader(http.StatusOK)
}

// Send sends a piece at once.
func (f *Frames) Send(frame api.StreamFrame) error {
	body := frame.Data
	contentType := "text/plain"
	if !f.Plain {
		contentType = "application/json"
		var err error
		if body, err = json.Marshal(frame); err != nil {
			return err
		}
	}
	f.Begin(contentType)
	if _, err := f.Call.W.Write(body); err != nil {
		return err
	}
	return http.NewResponseController(f.Call.W).Flush()
}
