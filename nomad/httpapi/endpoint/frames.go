package endpoint

import (
	"encoding/json"
	"net/http"

	"github.com/klauspost/compress/gzhttp"

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

// Send sends a piece at once. The first one sends the header, also when it is empty.
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
	if !f.begun && len(body) == 0 { // a compressed response would begin with the first byte only
		f.Call.W.Header().Set(gzhttp.HeaderNoCompression, "plain")
	}
	f.Begin(contentType)
	if _, err := f.Call.W.Write(body); err != nil {
		return err
	}
	return http.NewResponseController(f.Call.W).Flush()
}
