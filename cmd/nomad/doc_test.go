package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// TestExportedNamesAreDocumented wants a doc.go or package comment per package and a comment that
// begins with the name for each exported name.
func TestExportedNamesAreDocumented(t *testing.T) {
	for _, p := range packages(t) {
		documented := false
		for _, f := range p.files {
			if generated(f) {
				continue
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, f, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			documented = documented || parsed.Doc != nil
			for _, d := range parsed.Decls {
				undocumented(d, func(name string, pos token.Pos) {
					t.Errorf("%s:%d: exported %s has no doc comment", filepath.Join(p.path, filepath.Base(f)), set.Position(pos).Line, name)
				})
			}
		}
		if !documented && len(p.files) > 0 {
			t.Errorf("package %s does not say what it is for", p.path)
		}
	}
}

func undocumented(d ast.Decl, report func(string, token.Pos)) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) && !plumbing[d.Name.Name] {
			report(d.Name.Name, d.Pos())
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
					report(s.Name.Name, s.Pos())
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
						report(n.Name, n.Pos())
					}
				}
			}
		}
	}
}

// plumbing are methods that a well-known interface explains.
var plumbing = map[string]bool{
	"Error": true, "Unwrap": true, "String": true, "Kind": true, "Apply": true, "Is": true,
	"Len": true, "Less": true, "Swap": true, "Push": true, "Pop": true, "Read": true, "Write": true, "Close": true,
	"MarshalJSON": true, "UnmarshalJSON": true, "FromArgs": true, "FromObject": true, "Name": true, "Up": true, "Down": true,
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	switch x := typ.(type) {
	case *ast.IndexExpr:
		typ = x.X
	case *ast.IndexListExpr:
		typ = x.X
	}
	name, ok := typ.(*ast.Ident)
	return ok && name.IsExported()
}
