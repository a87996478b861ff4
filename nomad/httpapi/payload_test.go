package httpapi_test

import (
	"encoding/json"
	"testing"

	"github.com/klauspost/compress/snappy"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
)

func TestPayloadsAreReadAsTheyWereDispatched(t *testing.T) {
	t.Parallel()
	for stored, want := range map[string]string{
		string(snappy.Encode(nil, []byte("hello"))): "hello",
		"no snappy":            "no snappy",
		"\xff\xff\xff\xff\x0f": "\xff\xff\xff\xff\x0f",
	} {
		c := world()
		kept := &api.Job{ID: "j", Payload: []byte(stored)}
		on(c, wire.JobGet, func(*api.JobRequest) (*api.JobGetResponse, error) { return &api.JobGetResponse{Job: kept}, nil })
		var got api.Job
		if err := json.Unmarshal(send(handler(c), "GET", "/v1/job/j", "").Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if string(got.Payload) != want || string(kept.Payload) != stored {
			t.Errorf("%q was read as %q, and is %q now", stored, got.Payload, kept.Payload)
		}
	}
}
