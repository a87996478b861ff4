package variables

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/specfile"
	"github.com/open-nomad/open-nomad/command/view"
)

// spec is a variable as files describe it. What "nomad var get" prints is such a file.
type spec struct {
	Namespace   string            `hcl:"namespace"`
	Path        string            `hcl:"path"`
	CreateIndex uint64            `hcl:"create_index"`
	ModifyIndex uint64            `hcl:"modify_index"`
	CreateTime  int64             `hcl:"create_time"`
	ModifyTime  int64             `hcl:"modify_time"`
	Lock        *lockSpec         `hcl:"lock"`
	Items       map[string]string `hcl:"items"`
}

type lockSpec struct {
	ID        string `hcl:"id"`
	TTL       string `hcl:"ttl"`
	LockDelay string `hcl:"lock_delay"`
}

// hclOf is a variable as a file.
func hclOf(v *api.Variable) string {
	var b strings.Builder
	fmt.Fprintf(&b, "namespace    = %s\npath         = %s\n", quoted(v.Namespace), quoted(v.Path))
	fmt.Fprintf(&b, "create_index = %d # set by the server\nmodify_index = %d # set by the server; compared when the variable is written\n", v.CreateIndex, v.ModifyIndex)
	fmt.Fprintf(&b, "create_time  = %d # set by the server\nmodify_time  = %d # set by the server\n", v.CreateTime, v.ModifyTime)
	b.WriteString("\nitems {\n")
	for _, k := range slices.Sorted(maps.Keys(v.Items)) {
		fmt.Fprintf(&b, "  %s = %s\n", quoted(k), quoted(v.Items[k]))
	}
	b.WriteString("}\n")
	if l := v.Lock; l != nil {
		fmt.Fprintf(&b, "\nlock {\n  id         = %s\n  ttl        = %s\n  lock_delay = %s\n}\n", quoted(l.ID), quoted(l.TTL), quoted(l.LockDelay))
	}
	return b.String()
}

// quoted is a string of HCL in which nothing is interpolated.
func quoted(s string) string { return strings.ReplaceAll(strconv.Quote(s), "${", `\u0024{`) }

// items shows items as "key = value" lines.
func items(m map[string]string) string {
	var all [][2]string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, [2]string{k, m[k]})
	}
	return view.Pairs(all...)
}

// isSpec reports whether an argument is a file or stdin.
func isSpec(arg string) bool { return arg == "-" || strings.HasPrefix(arg, "@") }

// reader reads the sources of arguments. Stdin is read once.
type reader struct {
	s     *session.Session
	stdin bool
}

func (r *reader) source(arg string) (string, error) {
	name := strings.TrimPrefix(arg, "@")
	if name != "-" {
		return name, nil
	}
	if r.stdin {
		return "", fault.New(fault.Invalid, "stdin (-) is used twice: it can be read only once")
	}
	r.stdin = true
	return name, nil
}

// variable reads the first arguments: a file, or a path that may be followed by a file. The rest is left. A first argument
// with a dot is a file, because no path has one.
func (r *reader) variable(args []string, asJSON bool) (v *api.Variable, rest []string, err error) {
	v = &api.Variable{}
	path := ""
	isFile := isSpec(args[0])
	if !isFile && strings.Contains(args[0], "=") {
		return nil, nil, fault.New(fault.Invalid, "the first argument is an item: the path of the variable or a file comes first")
	}
	if !isFile && !strings.Contains(args[0], ".") {
		path, args = args[0], args[1:]
		isFile = len(args) > 0 && isSpec(args[0])
	} else {
		isFile = true
	}
	if isFile {
		name, err := r.source(args[0])
		if err != nil {
			return nil, nil, err
		}
		found := &spec{}
		if err := specfile.Read(r.s, name, asJSON && !strings.EqualFold(filepath.Ext(name), ".hcl"), found); err != nil {
			return nil, nil, session.Failed("reading variable specification", err)
		}
		v.VariableMeta = api.VariableMeta{Namespace: found.Namespace, Path: found.Path, ModifyIndex: found.ModifyIndex}
		if found.Lock != nil {
			v.Lock = &api.VariableLock{ID: found.Lock.ID, TTL: found.Lock.TTL, LockDelay: found.Lock.LockDelay}
		}
		v.Items, args = found.Items, args[1:]
	}
	if path != "" {
		v.Path = path
	}
	if v.Path == "" {
		return nil, nil, fault.New(fault.Invalid, "the variable has no path: give one as the first argument, or write path = \"...\" in the file")
	}
	if r.s.IsSet("namespace") || v.Namespace == "" {
		v.Namespace = r.s.String("namespace")
	}
	if v.Namespace != "" {
		r.s.Client = r.s.In(v.Namespace)
	}
	return v, args, nil
}

// pairs adds items of the form key=value, key=@file and key=- over those of the variable. A backslash before @ or - is
// removed. No error shows a value.
func (r *reader) pairs(v *api.Variable, args []string) error {
	for i, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" {
			return fault.New(fault.Invalid, "item %d is not key=value", i+1)
		}
		switch {
		case value == "-" || strings.HasPrefix(value, "@"):
			name, err := r.source(value)
			if err != nil {
				return err
			}
			_, text, err := r.s.Source(name)
			if err != nil {
				return session.Failed("reading item "+strconv.Quote(key), err)
			}
			value = string(text)
		case value == `\-` || strings.HasPrefix(value, `\@`):
			value = value[1:]
		}
		if v.Items == nil {
			v.Items = map[string]string{}
		}
		v.Items[key] = value
	}
	return nil
}
