package httpapi

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec"
)

// decodeJob decodes the JSON form of a job over its defaults.
func decodeJob(data []byte) (*api.Job, error) { return jobspec.DecodeJSON(data) }

// parseJob parses the text form of a job.
func parseJob(b api.JobsParseRequest) (*api.Job, error) {
	in := jobspec.Input{Path: "input.hcl", Body: []byte(b.JobHCL)}
	if b.Variables != "" {
		in.VarFiles = []jobspec.File{{Path: "variables.hcl", Body: []byte(b.Variables)}}
	}
	j, err := jobspec.Parse(in)
	if err != nil {
		return nil, fault.New(fault.Of(err), "Failed to parse job: %w", err)
	}
	if b.Canonicalize {
		jobspec.Canonicalize(j)
	}
	return j, nil
}
