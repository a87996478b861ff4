package httpapi

import (
	"encoding/json"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// decodeJob decodes the JSON form of a job over its defaults.
func decodeJob(data []byte) (*api.Job, error) {
	var j api.Job
	if err := json.Unmarshal(data, &j); err != nil {
		return nil, fault.New(fault.Invalid, "decode job: %w", err)
	}
	return &j, nil
}

// parseJob parses the text form of a job.
func parseJob(b api.JobsParseRequest) (*api.Job, error) {
	return nil, fault.New(fault.Unimplemented, "this agent does not parse job files")
}
