package taskenv

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/lazy"
)

// Paths are the directories of a task as the task sees them.
type Paths struct{ Alloc, Task, Secrets string }

// Input is everything that the environment of a task depends on.
type Input struct {
	Alloc  *api.Allocation
	Task   *api.Task
	Node   *api.Node
	Region string
	Paths  Paths
	// Tokens are the signed identities of the task by name.
	Tokens map[string]string
	// Secrets are values by "<name>.<key>", for references such as ${secret.db.password}. A reference to another is an error if the
	// task has secret blocks.
	Secrets map[string]string
	// Host is the environment of the agent that tasks may inherit; see [Inherited].
	Host map[string]string
	// Extra are variables of other services, such as CSI_ENDPOINT; the task's own env block wins over them.
	Extra map[string]string
	// Templates are the variables of templates with env = true; they win over all others.
	Templates map[string]string
}

// Env is the environment of one task. Its values do not change.
type Env struct {
	vars    map[string]string
	facts   map[string]string
	secrets map[string]string
	// unknown are the references to secrets that were replaced and do not exist; nil in a task without secrets.
	unknown map[string]bool
}

// New makes the environment.
func New(in Input) *Env {
	e := &Env{vars: map[string]string{}, facts: nodeFacts(in.Node, in.Region)}
	e.identity(in)
	e.resources(in)
	e.ports(in)
	e.tokens(in)
	e.meta(in)
	for name, value := range in.Host {
		if _, taken := e.vars[name]; !taken {
			e.vars[name] = value
		}
	}
	maps.Copy(e.vars, in.Extra)
	if e.secrets = in.Secrets; e.secrets != nil {
		e.unknown = map[string]bool{}
	}
	e.own(in.Task.Env)
	maps.Copy(e.vars, in.Templates)
	e.vars = cleaned(e.vars)
	return e
}

// own adds the task's env block; its values may refer to everything before and to each other in the order
// of their names.
func (e *Env) own(env map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		e.vars[e.Replace(name)] = e.Replace(env[name])
	}
}

// Fresh returns the same environment as if no text had been filled in yet. Several goroutines may each use their own.
func (e *Env) Fresh() *Env {
	out := *e
	if out.unknown != nil {
		out.unknown = map[string]bool{}
	}
	return &out
}

// Vars returns a copy of all variables.
func (e *Env) Vars() map[string]string { return maps.Clone(e.vars) }

// reference matches ${name} and ${env["name"]}.
var reference = lazy.Regexp(`\$\{(?:env\["([^"\]]*)"\]|([A-Za-z0-9_.\-/]+))\}`)

// secretPrefix begins references to secrets.
const secretPrefix = "secret."

// Unknown returns an error that names the references to secrets that texts have contained so far and that do not exist.
func (e *Env) Unknown() error {
	if len(e.unknown) == 0 {
		return nil
	}
	var wrong []string
	for _, ref := range slices.Sorted(maps.Keys(e.unknown)) {
		name, key, _ := strings.Cut(ref, ".")
		wrong = append(wrong, fmt.Sprintf("${secret.%s}: secret %q has no key %q", ref, name, key))
	}
	return fault.New(fault.Unavailable, "%s", strings.Join(wrong, "; "))
}

// secret returns the value of a reference to a secret.
func (e *Env) secret(name string) (string, bool) {
	ref, ok := strings.CutPrefix(name, secretPrefix)
	if !ok || e.secrets == nil {
		return "", false
	}
	v, ok := e.secrets[ref]
	if !ok {
		e.unknown[ref] = true
	}
	return v, ok
}

// Replace fills in the references of a text; unknown ones stay.
func (e *Env) Replace(text string) string {
	if !strings.Contains(text, "${") {
		return text
	}
	return reference().ReplaceAllStringFunc(text, func(ref string) string {
		m := reference().FindStringSubmatch(ref)
		if m[2] == "" {
			return e.vars[m[1]]
		}
		if v, ok := e.secret(m[2]); ok {
			return v
		}
		if v, ok := e.vars[m[2]]; ok {
			return v
		}
		if v, ok := e.facts[m[2]]; ok {
			return v
		}
		return ref
	})
}

// Value fills in the references of every text inside a value made of maps, lists and scalars. The input
// stays as it was.
func (e *Env) Value(v any) any {
	switch v := v.(type) {
	case string:
		return e.Replace(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = e.Value(v[i])
		}
		return out
	case []string:
		out := make([]string, len(v))
		for i := range v {
			out[i] = e.Replace(v[i])
		}
		return out
	case map[string]any:
		return e.Config(v)
	case []map[string]any:
		out := make([]map[string]any, len(v))
		for i := range v {
			out[i] = e.Config(v[i])
		}
		return out
	case map[string]string:
		out := make(map[string]string, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out[e.Replace(k)] = e.Replace(v[k])
		}
		return out
	}
	return v
}

// Config fills in the references of a driver's config block, keys included.
func (e *Env) Config(config map[string]any) map[string]any {
	out := make(map[string]any, len(config))
	for _, k := range slices.Sorted(maps.Keys(config)) {
		out[e.Replace(k)] = e.Value(config[k])
	}
	return out
}

// cleanedPrefixes are the names whose labels may hold characters that no shell variable can.
var cleanedPrefixes = []string{"NOMAD_ADDR_", "NOMAD_IP_", "NOMAD_PORT_", "NOMAD_HOST_PORT_", "NOMAD_META_"}

var unclean = lazy.Regexp(`[^A-Za-z0-9_]`)

// cleaned gives variables names that shells know. Of several that become the same, the one that had the name already
// wins, then the last.
func cleaned(vars map[string]string) map[string]string {
	out := make(map[string]string, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		as := name
		if slices.ContainsFunc(cleanedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			as = unclean().ReplaceAllString(name, "_")
		}
		if _, given := vars[as]; as == name || !given {
			out[as] = vars[name]
		}
	}
	return out
}
