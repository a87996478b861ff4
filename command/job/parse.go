package job

import (
	"encoding/json"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/jobspec"
	"github.com/open-nomad/open-nomad/jobspec/files"
)

// stdin is the name of the file that "-" stands for.
const stdin = "stdin"

// fromJSON reads a job in JSON, bare or inside {"Job": ...}.
func fromJSON(text []byte) (*source, error) {
	if err := jobspec.CheckJSON(text); err != nil {
		return nil, err
	}
	var wrapped struct{ Job json.RawMessage }
	if err := json.Unmarshal(text, &wrapped); err != nil {
		return nil, fault.New(fault.Invalid, "decode job: %w", err)
	}
	if len(wrapped.Job) > 0 {
		text = wrapped.Job
	}
	j, err := jobspec.DecodeJSON(text)
	if err != nil {
		return nil, err
	}
	return &source{
		job: j, submission: &api.JobSubmission{Source: string(text), Format: "json"},
		output: func() any { return json.RawMessage(text) },
	}, nil
}

// fromHCL parses a job file with its variables.
func fromHCL(s *session.Session, name string, text []byte) (*source, error) {
	vars, err := s.KeyValues("var")
	if err != nil {
		return nil, err
	}
	presence := &jobspec.Presence{}
	in := jobspec.Input{Path: name, Body: text, Presence: presence, Vars: vars, Env: environment(), Lenient: !s.Bool("hcl2-strict"), Files: files.Functions(directory(name))}
	var values []string
	for _, path := range s.Strings("var-file") {
		_, body, err := s.Source(path)
		if err != nil {
			return nil, err
		}
		in.VarFiles = append(in.VarFiles, jobspec.File{Path: path, Body: body})
		values = append(values, string(body))
	}
	j, err := jobspec.Parse(in)
	if err != nil {
		return nil, err
	}
	return &source{
		job: j, submission: &api.JobSubmission{
			Source: string(text), Format: "hcl2", VariableFlags: vars, Variables: strings.Join(values, "\n"),
		},
		output: func() any { return presence.Source(j) },
	}, nil
}

// directory returns the base of relative paths in a job file: its own directory, or the working directory for stdin.
func directory(name string) string {
	if name == stdin {
		return "."
	}
	return files.Dir(name)
}
