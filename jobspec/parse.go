package jobspec

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/dynblock"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
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
	Files FileFunctions
	// Stopped, when set, is asked again and again whether nobody waits for the job any more.
	Stopped func() bool
	// Said, when set, takes note of what the file says itself.
	Said *Said
}

// Parse turns a job file into a job without defaults that depend on the cluster. The error lists
// every mistake as file:line:column: reason.
func Parse(in Input) (*api.Job, error) {
	if in.Path == "" {
		in.Path = "job.hcl"
	}
	p := &parser{in: in, sources: map[string][]byte{in.Path: in.Body}, meter: newMeter()}
	p.meter.stopped = in.Stopped
	body, err := parseBody(in.Path, in.Body, p.meter)
	if err != nil {
		return nil, err
	}
	job, diags, err := p.job(body)
	if excess := p.meter.diagnostics(); excess != nil {
		// Whatever else is wrong may only follow from what was left out.
		return nil, problems(excess)
	}
	if err != nil {
		return nil, err
	}
	if diags.HasErrors() {
		return nil, problems(diags)
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
	if diags.HasErrors() || p.meter.excess != "" {
		return nil, diags, nil
	}
	jobs := content.Blocks.OfType("job")
	if len(jobs) != 1 {
		return nil, nil, oneJob(p.in.Path, jobs)
	}
	job, diags := decodeJob(jobs[0], scope, p.meter, p.in.Said)
	return job, diags, nil
}

var rootSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
	{Type: "variable", LabelNames: []string{"name"}},
	{Type: "variables"},
	{Type: "locals"},
	{Type: "job", LabelNames: []string{"id"}},
}}

type parser struct {
	in      Input
	sources map[string][]byte
	meter   *meter
}

// parseBody checks and parses a text in either syntax; the meter weighs what its expressions make.
func parseBody(path string, text []byte, m *meter) (hcl.Body, error) {
	trimmed := bytes.TrimSpace(text)
	inJSON := len(trimmed) > 0 && trimmed[0] == '{'
	check := CheckSize
	if inJSON {
		check = checkTexts
	}
	if err := check(path, text); err != nil {
		return nil, err
	}
	var file *hcl.File
	var diags hcl.Diagnostics
	if inJSON {
		file, diags = json.Parse(text, path)
	} else {
		file, diags = hclsyntax.ParseConfig(text, path, hcl.InitialPos)
	}
	if diags.HasErrors() {
		return nil, problems(diags)
	}
	if native, ok := file.Body.(*hclsyntax.Body); ok {
		m.watch(native)
		return native, nil
	}
	return jsonBody{file.Body, m}, nil
}

func oneJob(path string, jobs hcl.Blocks) error {
	if len(jobs) == 0 {
		return fault.New(fault.Invalid, `%s:1:1: no job: a job file has one block job "name" { ... }`, path)
	}
	r := jobs[1].DefRange
	return fault.New(fault.Invalid, "%s:%d:%d: a second job: a file has one; the first is on line %d",
		r.Filename, r.Start.Line, r.Start.Column, jobs[0].DefRange.Start.Line)
}

// decodeJob decodes the job block over the defaults of its type.
func decodeJob(block *hcl.Block, scope *hcl.EvalContext, m *meter, said *Said) (*api.Job, hcl.Diagnostics) {
	d := &decoder{scope: scope, jobType: api.JobTypeService, texts: textsOf(block.Body), said: said}
	body := dynblock.Expand(block.Body, scope, m.blocks())
	if typ, ok := d.peekString(body, "type"); ok {
		d.jobType = typ
	}
	job := &api.Job{}
	d.job(job, body)
	if job.ID == "" {
		job.ID = block.Labels[0]
	}
	if job.Name == "" {
		job.Name = block.Labels[0]
	}
	return job, d.diags
}

// problems turns diagnostics into one error of lines file:line:column: reason.
func problems(diags hcl.Diagnostics) error {
	var errs []error
	seen := map[string]bool{}
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		text := d.Summary
		if d.Detail != "" {
			text += "; " + d.Detail
		}
		if d.Subject != nil {
			text = fmt.Sprintf("%s:%d:%d: %s", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column, text)
		}
		if !seen[text] {
			seen[text] = true
			errs = append(errs, errors.New(text))
		}
	}
	return fault.Wrap(fault.Invalid, errors.Join(errs...))
}
