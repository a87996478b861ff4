package jobspec

import (
	"github.com/hashicorp/hcl/v2"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec/expr"
	"github.com/open-nomad/open-nomad/jobspec/hclspec"
)

// File is a text with the name that errors show.
type File struct {
	Path string
	Body []byte
}

// Input is a job file with everything that gives its variables values.
type Input struct {
	Path string
	Body []byte
	// Vars are values given by name, the strongest. VarFiles come before, then Env ("NOMAD_VAR_x=1").
	Vars     map[string]string
	VarFiles []File
	Env      []string
	// Lenient ignores values for variables that the file does not declare.
	Lenient bool
	// Files gives functions such as file() access to files; nil disables them.
	Files expr.FileFunctions
	// Stopped, when set, is asked again and again whether the request was canceled.
	Stopped func() bool
	// Presence, when set, records which fields the file sets.
	Presence *hclspec.Presence
}

// Parse turns a job file into a job without defaults that depend on the cluster. The error lists
// every mistake as file:line:column: reason.
func Parse(in Input) (*api.Job, error) {
	if in.Path == "" {
		in.Path = "job.hcl"
	}
	p := &parser{in: in, meter: expr.NewMeter(in.Stopped)}
	body, err := expr.Body(in.Path, in.Body, p.meter)
	if err != nil {
		return nil, err
	}
	job, diags, err := p.job(body)
	if excess := p.meter.Diagnostics(); excess != nil {
		// Whatever else is wrong may only follow from what was left out.
		return nil, expr.Problems(excess)
	}
	if err != nil {
		return nil, err
	}
	if diags.HasErrors() {
		return nil, expr.Problems(diags)
	}
	return job, nil
}

// job evaluates the parsed file.
func (p *parser) job(body hcl.Body) (*api.Job, hcl.Diagnostics, error) {
	content, diags := body.Content(rootSchema)
	if diags.HasErrors() {
		return nil, diags, nil
	}
	scope, diags := p.scope(content.Blocks)
	if diags.HasErrors() || p.meter.Diagnostics() != nil {
		return nil, diags, nil
	}
	jobs := content.Blocks.OfType("job")
	if len(jobs) != 1 {
		return nil, nil, oneJob(p.in.Path, jobs)
	}
	job, diags := hclspec.Job(jobs[0], scope, p.meter, p.in.Presence)
	return job, diags, nil
}

var rootSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
	{Type: "variable", LabelNames: []string{"name"}},
	{Type: "variables"},
	{Type: "locals"},
	{Type: "job", LabelNames: []string{"id"}},
}}

type parser struct {
	in    Input
	meter *expr.Meter
}

func oneJob(path string, jobs hcl.Blocks) error {
	if len(jobs) == 0 {
		return fault.New(fault.Invalid, `%s:1:1: a job file needs one block job "name" { ... }`, path)
	}
	r := jobs[1].DefRange
	return fault.New(fault.Invalid, "%s:%d:%d: a second job block: a file has one; the first is on line %d",
		r.Filename, r.Start.Line, r.Start.Column, jobs[0].DefRange.Start.Line)
}
