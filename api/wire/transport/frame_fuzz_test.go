package transport

import (
	"bytes"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// FuzzFrame reads any bytes as a greeting.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, '{', '}'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, '{'})
	f.Add([]byte("\x00\x00\x00\x1b{\"node\":\"n\",\"secret\":\"s\"}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Hello
		if readFrame(bytes.NewReader(b), &h) != nil {
			return
		}
		var again Hello
		var frame bytes.Buffer
		if err := writeFrame(&frame, h); err != nil { // escapes make it longer
			return
		}
		if err := readFrame(&frame, &again); err != nil || again != h {
			t.Errorf("%+v came back as %+v: %v", h, again, err)
		}
	})
}

// FuzzMessage reads any bytes as a message with most kinds of fields.
func FuzzMessage(f *testing.F) {
	b, err := encode(&api.JobRegisterRequest{Job: &api.Job{ID: "j", TaskGroups: []*api.TaskGroup{{Tasks: []*api.Task{{Config: map[string]any{"a": []any{1.5}}}}}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{0x81, 0xa3, 'J', 'o', 'b', 0xc0})
	f.Fuzz(func(t *testing.T, b []byte) {
		var r api.JobRegisterRequest
		if decode(b, &r) != nil {
			return
		}
		if _, err := encode(&r); err != nil {
			t.Error(err)
		}
	})
}
