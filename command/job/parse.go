package job

import (
	"encoding/json"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
)

// fromJSON reads a job in JSON, bare or inside {"Job": ...}.
func fromJSON(text []byte) (*source, error) {
	var wrapped struct{ Job json.RawMessage }
	if err := json.Unmarshal(text, &wrapped); err != nil {
		return nil, fault.New(fault.Invalid, "decode job: %w", err)
	}
	if len(wrapped.Job) > 0 {
		text = wrapped.Job
	}
	var j api.Job
	if err := json.Unmarshal(text, &j); err != nil {
		return nil, fault.New(fault.Invalid, "decode job: %w", err)
	}
	return &source{job: &j, submission: &api.JobSubmission{Source: string(text), Format: "json"}}, nil
}

// fromHCL parses a job file.
func fromHCL(_ *session.Session, _ string, _ []byte) (*source, error) {
	return nil, fault.New(fault.Unimplemented, "job files are not parsed yet")
}
