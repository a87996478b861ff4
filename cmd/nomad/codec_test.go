package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// generated reports whether the codec generator wrote a file.
func generated(file string) bool { return strings.HasPrefix(filepath.Base(file), "zz_") }

// TestCodecsAreUsed wants no codec for a type of package api that only the HTTP API speaks of: "//msgp:ignore NAME" in
// its file leaves it out. What is coded is what RPC methods, raft commands, tables and the database of a node hold.
func TestCodecsAreUsed(t *testing.T) {
	holds, coded := map[string][]string{}, map[string]bool{}
	used := map[string]bool{}
	for _, p := range packages(t) {
		for _, f := range p.files {
			switch {
			case p.path == "api" && generated(f):
				eachMethod(t, f, func(recv string) { coded[recv] = true })
			case p.path == "api":
				eachType(t, f, func(name string, names []string) { holds[name] = names })
			case p.path == "api/wire" || p.path == "nomad/state" || p.path == "client/store" || hasCodec(f):
				ast.Inspect(parse(t, f), func(n ast.Node) bool {
					if s, ok := n.(*ast.SelectorExpr); ok && ident(s.X) == "api" {
						reach(s.Sel.Name, holds, used)
					}
					return true
				})
			}
		}
	}
	for name := range coded {
		if !used[name] {
			t.Errorf("api.%s has a codec that nothing needs: write //msgp:ignore %s and run go generate ./api", name, name)
		}
	}
	if len(coded) < 100 {
		t.Errorf("only %d codecs were found", len(coded))
	}
}

// reach marks a type and all that it holds. Packages are listed by path, so that api was read before others.
func reach(name string, holds map[string][]string, used map[string]bool) {
	if used[name] {
		return
	}
	used[name] = true
	for _, n := range holds[name] {
		reach(n, holds, used)
	}
}

func hasCodec(file string) bool {
	base := strings.TrimSuffix(filepath.Base(file), ".go")
	_, err := os.Stat(filepath.Join(filepath.Dir(file), "zz_"+base+"_msgp.go"))
	return err == nil
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func ident(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return ident(e.X)
	}
	return ""
}

// eachType calls do with each type of a file and the names in it.
func eachType(t *testing.T, file string, do func(name string, names []string)) {
	t.Helper()
	ast.Inspect(parse(t, file), func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		var names []string
		var held func(ast.Node) bool
		held = func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field: // its name is none of a type
				ast.Inspect(n.Type, held)
				return false
			case *ast.Ident:
				names = append(names, n.Name)
			}
			return true
		}
		ast.Inspect(spec.Type, held)
		do(spec.Name.Name, names)
		return false
	})
}

// eachMethod calls do with the receiver's type of each method that codes.
func eachMethod(t *testing.T, file string, do func(recv string)) {
	t.Helper()
	for _, d := range parse(t, file).Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && fn.Name.Name == "MarshalMsg" {
			do(ident(fn.Recv.List[0].Type))
		}
	}
}
