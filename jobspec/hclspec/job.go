package hclspec

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/dynblock"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/expr"
)

// Job decodes the job block over the defaults of its type. set, where it is not nil, records the fields that the block
// sets.
func Job(block *hcl.Block, scope *hcl.EvalContext, m *expr.Meter, set *Presence) (*api.Job, hcl.Diagnostics) {
	d := &decoder{scope: scope, jobType: api.JobTypeService, texts: textsOf(block.Body), set: set}
	body := dynblock.Expand(block.Body, scope, m.Blocks())
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
