package job

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/open-nomad/open-nomad/jobspec"
)

// fileFunctions are the functions of job files that see the user's files.
func fileFunctions() jobspec.FileFunctions {
	return jobspec.FileFunctions{
		"abspath":  text(filepath.Abs),
		"basename": text(func(p string) (string, error) { return filepath.Base(p), nil }),
		"dirname":  text(func(p string) (string, error) { return filepath.Dir(p), nil }),
		"file": text(func(p string) (string, error) {
			body, err := read(p)
			return string(body), err
		}),
		"filebase64": text(func(p string) (string, error) {
			body, err := read(p)
			return base64.StdEncoding.EncodeToString(body), err
		}),
		"pathexpand": text(expand),
		"fileexists": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "path", Type: cty.String}},
			Type:   function.StaticReturnType(cty.Bool),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				path, err := expand(args[0].AsString())
				if err != nil {
					return cty.False, err
				}
				info, err := os.Stat(path)
				return cty.BoolVal(err == nil && info.Mode().IsRegular()), nil
			},
		}),
		"fileset": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "path", Type: cty.String}, {Name: "pattern", Type: cty.String}},
			Type:   function.StaticReturnType(cty.Set(cty.String)),
			Impl:   fileset,
		}),
	}
}

func text(fn func(string) (string, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			out, err := fn(args[0].AsString())
			return cty.StringVal(out), err
		},
	})
}

func read(path string) ([]byte, error) {
	path, err := expand(path)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// expand replaces a leading ~ by the user's home.
func expand(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok {
		return path, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, rest), err
}

func fileset(args []cty.Value, _ cty.Type) (cty.Value, error) {
	dir := args[0].AsString()
	found, err := filepath.Glob(filepath.Join(dir, args[1].AsString()))
	if err != nil {
		return cty.NilVal, err
	}
	var names []cty.Value
	for _, f := range found {
		if info, err := os.Stat(f); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if rel, err := filepath.Rel(dir, f); err == nil {
			names = append(names, cty.StringVal(filepath.ToSlash(rel)))
		}
	}
	if len(names) == 0 {
		return cty.SetValEmpty(cty.String), nil
	}
	return cty.SetVal(names), nil
}
