package hclspec

import (
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec/defaults"
	"github.com/open-nomad/open-nomad/jobspec/expr"
)

// shortForms are operators that may be written as keys: regexp = "x" means operator and value.
var shortForms = []string{
	api.ConstraintRegex, api.ConstraintVersion, api.ConstraintSemver, api.ConstraintSetContains,
	api.ConstraintSetContainsAll, api.ConstraintSetContainsAny,
}

// wholeForms are short forms that name the attribute themselves.
var wholeForms = []string{api.ConstraintDistinctProperty, api.ConstraintAttributeIsSet, api.ConstraintAttributeIsNotSet}

// special changes the schema of types whose files allow more than their tags.
func special(t reflect.Type, s *hcl.BodySchema) *hcl.BodySchema {
	switch t {
	case reflect.TypeFor[api.Constraint]():
		addAttributes(s, shortForms...)
		addAttributes(s, wholeForms...)
		addAttributes(s, api.ConstraintDistinctHosts)
	case reflect.TypeFor[api.Affinity]():
		addAttributes(s, shortForms...)
	case reflect.TypeFor[api.Task]():
		labelBlock(s, defaults.ScalingBlock)
	case reflect.TypeFor[api.TaskGroup]():
		addBlocks(s, "vault", "secret")
		labelBlock(s, "secret")
	case reflect.TypeFor[api.Job]():
		addBlocks(s, "vault", "secret", "task", "migrate", "reschedule")
		labelBlock(s, "secret")
		labelBlock(s, "task")
	}
	return s
}

func addAttributes(s *hcl.BodySchema, names ...string) {
	for _, n := range names {
		s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: n})
	}
}

func addBlocks(s *hcl.BodySchema, names ...string) {
	for _, n := range names {
		s.Blocks = append(s.Blocks, hcl.BlockHeaderSchema{Type: n})
	}
}

func labelBlock(s *hcl.BodySchema, name string) {
	for i := range s.Blocks {
		if s.Blocks[i].Type == name {
			s.Blocks[i].LabelNames = []string{"name"}
		}
	}
}

// peekString reads one attribute before the rest is decoded.
func (d *decoder) peekString(body hcl.Body, name string) (string, bool) {
	c, _, _ := body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: name}}})
	a := c.Attributes[name]
	if a == nil {
		return "", false
	}
	v, diags := expr.Evaluate(a.Expr, d.scope)
	if diags.HasErrors() || v.IsNull() || v.Type() != cty.String {
		return "", false
	}
	return v.AsString(), true
}

func (d *decoder) job(job *api.Job, body hcl.Body) {
	d.Prefill(job, "job", d.jobType)
	d.structure(reflect.ValueOf(job).Elem(), body, nil)
}

// finish applies what the tags cannot express, after the tagged fields of dst are decoded.
func (d *decoder) finish(dst reflect.Value, c *hcl.BodyContent) {
	switch v := dst.Addr().Interface().(type) {
	case *api.Job:
		d.finishJob(v, c)
	case *api.TaskGroup:
		d.finishGroup(v, c)
		defaults.Complete(v)
	case *api.Task:
		v.Identities = defaultIdentity(v)
		d.once(c.Blocks.OfType(defaults.ScalingBlock))
	case *api.NetworkResource:
		splitPorts(v)
	case *api.Constraint:
		v.LTarget, v.Operand, v.RTarget = d.short(c, v.LTarget, v.Operand, v.RTarget)
	case *api.Affinity:
		v.LTarget, v.Operand, v.RTarget = d.short(c, v.LTarget, v.Operand, v.RTarget)
	}
}

// scaling completes a scaling policy by where it stands, and refuses what no autoscaler could use.
func (d *decoder) scaling(p *api.ScalingPolicy, b *hcl.Block) {
	kind := "horizontal"
	if len(b.Labels) == 1 {
		kind = "vertical_" + b.Labels[0]
		if !slices.Contains(scaledOfTasks, b.Labels[0]) {
			d.diags = append(d.diags, expr.Problem(b.LabelRanges[0], "scaling of a task is one of %s", strings.Join(scaledOfTasks, ", ")))
		}
	}
	if p.Type != "" && p.Type != kind {
		d.diags = append(d.diags, expr.Problem(b.DefRange, "scaling has the type %q here, not %q", kind, p.Type))
	}
	p.Type = kind
	c, _, _ := b.Body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "max"}}})
	if c.Attributes["max"] == nil {
		d.diags = append(d.diags, expr.Problem(b.DefRange, "scaling needs max"))
	}
}

// scaledOfTasks are the labels of scaling blocks of tasks.
var scaledOfTasks = []string{"cpu", "mem"}

// once refuses a second block with the labels of another.
func (d *decoder) once(blocks hcl.Blocks) {
	for i, b := range blocks {
		if slices.ContainsFunc(blocks[:i], func(o *hcl.Block) bool { return slices.Equal(o.Labels, b.Labels) }) {
			d.diags = append(d.diags, expr.Problem(b.DefRange, "%s %q is there twice", b.Type, strings.Join(b.Labels, " ")))
		}
	}
}

// short translates the short forms of constraints and affinities.
func (d *decoder) short(c *hcl.BodyContent, left, operand, right string) (string, string, string) {
	text := func(name string) (string, bool) {
		a := c.Attributes[name]
		if a == nil {
			return "", false
		}
		var s string
		d.attribute(reflect.ValueOf(&s).Elem(), a)
		return s, true
	}
	for _, name := range shortForms {
		if s, ok := text(name); ok {
			return left, name, s
		}
	}
	for _, name := range wholeForms {
		if s, ok := text(name); ok {
			return s, name, right
		}
	}
	if s, ok := text(api.ConstraintDistinctHosts); ok {
		return left, api.ConstraintDistinctHosts, s
	}
	if operand == "" {
		operand = "="
	}
	return left, operand, right
}

// splitPorts moves ports with a fixed number to the reserved ones.
func splitPorts(n *api.NetworkResource) {
	var dynamic []api.Port
	for _, p := range n.DynamicPorts {
		if p.Value != 0 {
			n.ReservedPorts = append(n.ReservedPorts, p)
		} else {
			dynamic = append(dynamic, p)
		}
	}
	n.DynamicPorts = dynamic
}

// defaultIdentity makes the identity without a name the task's default one.
func defaultIdentity(t *api.Task) []*api.WorkloadIdentity {
	var named []*api.WorkloadIdentity
	for _, id := range t.Identities {
		if t.Identity == nil && (id.Name == "" || id.Name == "default") {
			t.Identity = id
		} else {
			named = append(named, id)
		}
	}
	return named
}

func (d *decoder) finishGroup(g *api.TaskGroup, c *hcl.BodyContent) {
	var shared struct {
		Vault   *api.Vault
		Secrets []*api.Secret
	}
	v := reflect.ValueOf(&shared).Elem()
	d.blocks(v.Field(0), c.Blocks.OfType("vault"), "vault")
	d.blocks(v.Field(1), c.Blocks.OfType("secret"), "secret")
	d.share(g.Tasks, shared.Vault, shared.Secrets)
	for name, req := range g.Volumes {
		if req.Name == "" {
			req.Name = name
		}
	}
}

// share copies the blocks around tasks to the tasks; a task's own vault block wins.
func (d *decoder) share(tasks []*api.Task, vault *api.Vault, secrets []*api.Secret) {
	for _, t := range tasks {
		if t.Vault == nil && vault != nil {
			own := *vault
			t.Vault = &own
			d.set.copied(t.Vault, vault)
		}
		t.Secrets = append(t.Secrets, secrets...)
	}
}

func (d *decoder) finishJob(j *api.Job, c *hcl.BodyContent) {
	var extra struct {
		Tasks      []*api.Task
		Vault      *api.Vault
		Secrets    []*api.Secret
		Migrate    *api.MigrateStrategy
		Reschedule *api.ReschedulePolicy
	}
	v := reflect.ValueOf(&extra).Elem()
	for i, name := range []string{"task", "vault", "secret", "migrate", "reschedule"} {
		d.blocks(v.Field(i), c.Blocks.OfType(name), name)
	}
	if d.set != nil {
		d.set.migrate, d.set.reschedule = extra.Migrate, extra.Reschedule
	}
	for _, t := range extra.Tasks {
		g := &api.TaskGroup{Name: t.Name}
		d.set.add(g)
		d.set.note(g, 0)
		d.Prefill(g, "group", d.jobType)
		defaults.Complete(g)
		g.Tasks = []*api.Task{t}
		j.TaskGroups = append(j.TaskGroups, g)
	}
	for _, g := range j.TaskGroups {
		d.share(g.Tasks, extra.Vault, extra.Secrets)
		if g.Migrate == nil && extra.Migrate != nil {
			own := *extra.Migrate
			g.Migrate = &own
			d.set.inherit(g.Migrate, extra.Migrate)
		}
		if g.ReschedulePolicy == nil && extra.Reschedule != nil {
			own := *extra.Reschedule
			g.ReschedulePolicy = &own
			d.set.inherit(g.ReschedulePolicy, extra.Reschedule)
		}
	}
}
