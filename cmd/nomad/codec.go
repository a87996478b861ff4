//go:build ignore

// This program writes the MessagePack codecs of a package, one file for each source file: the types of job.go have
// theirs in zz_job_msgp.go. It is msgp's own parser and printer; msgp itself writes one file for all.
//
//	codec.go DIR             all exported types of the package
//	codec.go DIR FILE...     those of the named files, each read alone
//
// A type without a codec is named next to it: //msgp:ignore TYPE. Codecs without a source file are removed; "go
// generate", which had listed them before, then stops: run it again.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tinylib/msgp/gen"
	"github.com/tinylib/msgp/parse"
	"github.com/tinylib/msgp/printer"
	"mvdan.cc/gofumpt/format"
)

const mode = gen.Marshal | gen.Unmarshal | gen.Size

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: codec.go DIR [FILE...]")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "codec:", err)
		os.Exit(1)
	}
}

// run writes the codecs of a directory and removes those that no source file has any longer.
func run(dir string, files []string) error {
	write := whole
	if len(files) > 0 {
		write = func(dir string) ([]string, error) { return alone(dir, files) }
	}
	written, err := write(dir)
	if err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, "zz_*msgp.go"))
	if err != nil {
		return err
	}
	for _, f := range old {
		if slices.Contains(written, f) {
			continue
		}
		if err := os.Remove(f); err != nil {
			return err
		}
	}
	return nil
}

// alone reads each file by itself.
func alone(dir string, files []string) ([]string, error) {
	var written []string
	for _, f := range files {
		set, err := parse.File(filepath.Join(dir, f), false, nil)
		if err != nil {
			return nil, err
		}
		out := target(dir, f)
		if err := printTo(out, set); err != nil {
			return nil, err
		}
		written = append(written, out)
	}
	return written, nil
}

// whole reads the package at once, so that a small type of one file is coded inline in another one.
func whole(dir string) ([]string, error) {
	all, err := parse.File(dir, false, nil)
	if err != nil {
		return nil, err
	}
	types, err := typesByFile(dir)
	if err != nil {
		return nil, err
	}
	var written []string
	for file, names := range types {
		part := *all
		part.Identities = map[string]gen.Elem{}
		for _, n := range names {
			if e, ok := all.Identities[n]; ok {
				part.Identities[n] = e
			}
		}
		if len(part.Identities) == 0 {
			continue
		}
		out := target(dir, file)
		if err := printTo(out, &part); err != nil {
			return nil, err
		}
		written = append(written, out)
	}
	return written, nil
}

// typesByFile lists the types that the source files of a directory declare.
func typesByFile(dir string) (map[string][]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	types := map[string][]string{}
	for _, f := range files {
		name := filepath.Base(f)
		if strings.HasPrefix(name, "zz_") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range parsed.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				if t, ok := s.(*ast.TypeSpec); ok {
					types[name] = append(types[name], t.Name.Name)
				}
			}
		}
	}
	return types, nil
}

func target(dir, source string) string {
	return filepath.Join(dir, "zz_"+strings.TrimSuffix(source, ".go")+"_msgp.go")
}

// printTo writes one file as gofumpt wants it, so that nothing needs to know which files are generated.
func printTo(out string, set *parse.FileSet) error {
	if err := printer.PrintFile(out, set, mode); err != nil {
		return err
	}
	src, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	src, err = format.Source(src, format.Options{LangVersion: "go1.26"})
	if err != nil {
		return err
	}
	return os.WriteFile(out, src, 0o644)
}
