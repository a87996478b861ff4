package jobspec

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/bounds"
	"github.com/open-nomad/open-nomad/jobspec/defaults"
	"github.com/open-nomad/open-nomad/jobspec/expr"
	"github.com/open-nomad/open-nomad/jobspec/hclspec"
	"github.com/open-nomad/open-nomad/jobspec/jsonspec"
)

// Limits of a job; package bounds documents each.
const (
	SizeMax    = bounds.SizeMax
	JSONMax    = bounds.JSONMax
	DepthMax   = bounds.DepthMax
	GroupsMax  = bounds.GroupsMax
	TasksMax   = bounds.TasksMax
	EntriesMax = bounds.EntriesMax
	NamesMax   = bounds.NamesMax
	WeightMax  = expr.WeightMax
)

// FileFunctions are functions that see files: file, fileexists and the like. The command line provides them; a server
// does not.
type FileFunctions = expr.FileFunctions

// Presence records which fields a job file sets: its JSON form of the job has null for the others.
type Presence = hclspec.Presence

// Request is what programs send with a job.
type Request = jsonspec.Request

// DecodeJSON is [jsonspec.Decode]: a job in JSON over the defaults of its type.
func DecodeJSON(body []byte) (*api.Job, error) { return jsonspec.Decode(body) }

// DecodeRequest is [jsonspec.DecodeRequest]: a request with a job in it.
func DecodeRequest(body []byte) (*Request, error) { return jsonspec.DecodeRequest(body) }

// CheckJSON is [bounds.CheckJSON]: it refuses texts that are too large or nested too deeply.
func CheckJSON(body []byte) error { return bounds.CheckJSON(body) }

// Canonicalize is [defaults.Canonicalize]: it completes a job with the defaults of its unset fields.
func Canonicalize(j *api.Job) { defaults.Canonicalize(j) }
