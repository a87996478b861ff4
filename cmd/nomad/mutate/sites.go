package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
)

// site is a place in the code and one way to change it.
type site struct {
	id   int
	file string
	line int
	// key says what it is, in the words of the list of survivors.
	key   string
	edits []edit
}

// edit inserts a text; lines stay as they are.
type edit struct {
	at   int
	text string
	// inner edits at one place come first when they open, and last when they close.
	opens bool
	size  int
}

// rank orders sites for the choice of those that are tried.
func (s *site) rank() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.key))
	return h.Sum64()
}

// finder collects the sites of a file.
type finder struct {
	set    *token.FileSet
	src    []byte
	file   string
	fn     string
	counts map[string]int
	sites  []*site
	skip   map[ast.Node]bool
}

// find lists the sites of a source file. Ids are given later.
func find(file string, src []byte) ([]*site, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &finder{set: set, src: src, file: file, counts: map[string]int{}, skip: map[ast.Node]bool{}}
	for _, d := range parsed.Decls {
		fn, is := d.(*ast.FuncDecl)
		if !is || fn.Body == nil {
			continue
		}
		f.fn = fn.Name.Name
		if fn.Recv != nil && len(fn.Recv.List) > 0 {
			f.fn = strings.TrimLeft(f.text(fn.Recv.List[0].Type), "*") + "." + f.fn
		}
		ast.Inspect(fn.Body, f.visit)
	}
	return f.sites, nil
}

func (f *finder) offset(p token.Pos) int { return f.set.Position(p).Offset }

func (f *finder) text(n ast.Node) string {
	return strings.Join(strings.Fields(string(f.src[f.offset(n.Pos()):f.offset(n.End())])), " ")
}

// around adds a site that puts the node between two texts, in which %d is the id.
func (f *finder) around(n ast.Node, kind, before, after string) {
	text := f.text(n)
	if len(text) > 100 {
		text = text[:100]
	}
	key := strings.Join([]string{f.file, f.fn, kind, text}, "\t")
	f.counts[key]++
	from, to := f.offset(n.Pos()), f.offset(n.End())
	f.sites = append(f.sites, &site{
		file: f.file, line: f.set.Position(n.Pos()).Line, key: fmt.Sprintf("%s\t%d", key, f.counts[key]),
		edits: []edit{{from, before, true, to - from}, {to, after, false, to - from}},
	})
}

func (f *finder) visit(n ast.Node) bool {
	if f.skip[n] {
		return false
	}
	switch n := n.(type) {
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.IfStmt:
		if b, is := n.Cond.(*ast.BinaryExpr); !is || b.Op != token.LAND && b.Op != token.LOR {
			f.around(n.Cond, "negate", "((", ") != mutant(%d))")
		}
	case *ast.ReturnStmt:
		for _, r := range n.Results {
			if id, is := r.(*ast.Ident); is && (id.Name == "true" || id.Name == "false") {
				f.around(r, "negate", "(", " != mutant(%d))")
			}
		}
	case *ast.BlockStmt:
		for _, s := range n.List {
			f.statement(s)
		}
	case *ast.CaseClause:
		for _, s := range n.Body {
			f.statement(s)
		}
	case *ast.ForStmt: // an endless loop takes as long as a timeout
		if n.Post != nil {
			f.skip[n.Post] = true
		}
		if n.Cond != nil {
			f.skip[n.Cond] = true
		}
	}
	return true
}

// binary drops the parts of conditions and moves limits by one.
func (f *finder) binary(b *ast.BinaryExpr) {
	switch b.Op {
	case token.LAND:
		f.around(b.X, "drop", "((", ") || mutant(%d))")
		f.around(b.Y, "drop", "((", ") || mutant(%d))")
	case token.LOR:
		f.around(b.X, "drop", "((", ") && !mutant(%d))")
		f.around(b.Y, "drop", "((", ") && !mutant(%d))")
	case token.LSS, token.GTR:
		if pure(b.X) && pure(b.Y) {
			f.around(b, "limit", "((", fmt.Sprintf(") || mutant(%%d) && (%s) == (%s))", f.text(b.X), f.text(b.Y)))
		}
	case token.LEQ, token.GEQ:
		if pure(b.X) && pure(b.Y) {
			f.around(b, "limit", "((", fmt.Sprintf(") && !(mutant(%%d) && (%s) == (%s)))", f.text(b.X), f.text(b.Y)))
		}
	}
}

// pure reports whether an expression may be evaluated twice.
func pure(e ast.Expr) bool {
	ok := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name, is := n.Fun.(*ast.Ident)
			ok = ok && is && slices.Contains([]string{"len", "int64", "float64", "int", "cap"}, name.Name)
		case *ast.FuncLit:
			ok = false
		case *ast.UnaryExpr:
			ok = ok && n.Op != token.ARROW
		}
		return ok
	})
	return ok
}

// statement leaves out what is done for its effect.
func (f *finder) statement(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.ExprStmt:
		if call, is := s.X.(*ast.CallExpr); is && !quiet(f.text(call.Fun)) {
			f.around(s, "leave out", "if !mutant(%d) { ", " }")
		}
	case *ast.AssignStmt:
		if s.Tok != token.DEFINE && !(len(s.Lhs) == 1 && f.text(s.Lhs[0]) == "_") {
			f.around(s, "leave out", "if !mutant(%d) { ", " }")
		}
	case *ast.IncDecStmt:
		f.around(s, "leave out", "if !mutant(%d) { ", " }")
	}
}

// quiet reports whether a call is one that tests need not notice: logs, locks, panics.
func quiet(fn string) bool {
	for _, part := range []string{"log.", "Log.", "panic", "Lock", "Unlock", "RLock", "RUnlock", "clear"} {
		if strings.HasSuffix(fn, part) || strings.Contains(fn, part) {
			return true
		}
	}
	return false
}

// choose keeps the sites with the lowest ranks and gives them their ids.
func choose(all []*site, most int) []*site {
	chosen := slices.Clone(all)
	slices.SortFunc(chosen, func(a, b *site) int {
		if a.rank() != b.rank() {
			if a.rank() < b.rank() {
				return -1
			}
			return 1
		}
		return strings.Compare(a.key, b.key)
	})
	chosen = chosen[:min(most, len(chosen))]
	for i, s := range chosen {
		s.id = i + 1
	}
	return chosen
}

// rewrite builds the sites of one file into its source.
func rewrite(src []byte, sites []*site) []byte {
	var edits []edit
	for _, s := range sites {
		for _, e := range s.edits {
			e.text = strings.ReplaceAll(e.text, "%d", strconv.Itoa(s.id))
			edits = append(edits, e)
		}
	}
	slices.SortStableFunc(edits, func(a, b edit) int {
		switch {
		case a.at != b.at:
			return a.at - b.at
		case a.opens != b.opens: // what ended here is closed before the next opens
			if a.opens {
				return 1
			}
			return -1
		case a.opens:
			return b.size - a.size
		}
		return a.size - b.size
	})
	var out []byte
	last := 0
	for _, e := range edits {
		out = append(append(out, src[last:e.at]...), e.text...)
		last = e.at
	}
	return append(out, src[last:]...)
}
