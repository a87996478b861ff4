package hcl1

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/hcl/ast"
	"github.com/hashicorp/hcl/hcl/parser"
	"github.com/hashicorp/hcl/hcl/scanner"
	hclstrconv "github.com/hashicorp/hcl/hcl/strconv"
	"github.com/hashicorp/hcl/hcl/token"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec/tree"
)

// DepthMax bounds nesting: parsers recurse.
const DepthMax = 100

// Parse reads a file in the syntax that its first byte selects: a brace begins JSON. The path is for errors, which are
// an [*Error] of kind [fault.Invalid] that names the first mistake. The caller bounds the size of the source.
func Parse(path string, source []byte) (items []tree.Item, err error) {
	defer func() { // the parser of HCL panics on some nonsense
		if r := recover(); r != nil {
			items, err = nil, fault.Wrap(fault.Invalid, &tree.Error{Path: path, At: tree.Place{Line: 1, Column: 1}, Reason: fmt.Sprintf("the file cannot be parsed: %v", r)})
		}
	}()
	if trimmed := bytes.TrimSpace(source); len(trimmed) > 0 && trimmed[0] == '{' {
		return parseJSON(path, source)
	}
	if mistake := check(source); mistake != nil {
		mistake.Path = path
		return nil, fault.Wrap(fault.Invalid, mistake)
	}
	file, err := parser.ParseDontErrorOnDuplicateKeys(source)
	if err == nil {
		items, err = itemsOf(file.Node.(*ast.ObjectList))
	}
	if err != nil {
		mistake := &tree.Error{Path: path, At: tree.Place{Line: 1, Column: 1}, Reason: err.Error()}
		var place *parser.PosError
		if errors.As(err, &place) {
			mistake.At, mistake.Reason = placeOf(place.Pos), reasonOf(place.Err)
		}
		return nil, fault.Wrap(fault.Invalid, mistake)
	}
	return items, nil
}

// reasonOf rewrites the parser's message about its tokens in the words of users.
func reasonOf(err error) string {
	said := err.Error()
	if _, word, bare := strings.Cut(said, " IDENT "); bare && strings.HasPrefix(said, "Unknown token") {
		return fmt.Sprintf("%q is not a value: put strings in quotes", word)
	}
	if strings.HasPrefix(said, "nested object expected") {
		return "the previous key has no value: an equals sign or an opening brace must follow a key"
	}
	return said
}

// check finds what the parser does not report: nesting that is too deep, braces without a partner, and a last key
// without its value.
func check(source []byte) *tree.Error {
	s := scanner.New(source)
	s.Error = func(token.Pos, string) {} // the parser reports it
	var open []token.Token
	var before, t token.Token
	for {
		if t.Type != token.COMMENT {
			before = t
		}
		switch t = s.Scan(); t.Type {
		case token.EOF:
			switch {
			case len(open) > 0:
				last := open[len(open)-1]
				return &tree.Error{At: placeOf(last.Pos), Reason: fmt.Sprintf("%q is never closed", last.Text)}
			case before.Type == token.ASSIGN:
				return &tree.Error{At: placeOf(before.Pos), Reason: "a value is needed after the equals sign"}
			}
			return nil
		case token.LBRACE, token.LBRACK:
			if open = append(open, t); len(open) > DepthMax {
				return &tree.Error{At: placeOf(t.Pos), Reason: fmt.Sprintf("nested deeper than %d levels", DepthMax)}
			}
		case token.RBRACE, token.RBRACK:
			if len(open) == 0 || (open[len(open)-1].Type == token.LBRACE) != (t.Type == token.RBRACE) {
				return &tree.Error{At: placeOf(t.Pos), Reason: fmt.Sprintf("%q closes nothing", t.Text)}
			}
			open = open[:len(open)-1]
		}
	}
}

func placeOf(p token.Pos) tree.Place {
	return tree.Place{Line: max(p.Line, 1), Column: max(p.Column, 1)}
}

func itemsOf(list *ast.ObjectList) ([]tree.Item, error) {
	var items []tree.Item
	for _, o := range list.Items {
		it := tree.Item{At: placeOf(o.Keys[0].Pos())}
		for i, k := range o.Keys {
			word, err := textOf(k.Token)
			if err != nil {
				return nil, err
			}
			if i == 0 {
				it.Key = word
			} else {
				it.Labels = append(it.Labels, word)
			}
		}
		v, err := valueOf(o.Val)
		if err != nil {
			return nil, err
		}
		it.Value = v
		items = append(items, it)
	}
	return items, nil
}

func valueOf(n ast.Node) (tree.Value, error) {
	v := tree.Value{At: placeOf(n.Pos())}
	var err error
	switch n := n.(type) {
	case *ast.ObjectType:
		v.Kind = tree.Block
		v.Items, err = itemsOf(n.List)
	case *ast.ListType:
		v.Kind = tree.List
		for _, e := range n.List {
			element, err := valueOf(e)
			if err != nil {
				return v, err
			}
			v.List = append(v.List, element)
		}
	case *ast.LiteralType:
		v.Kind = kindOf(n.Token.Type)
		v.Text, err = textOf(n.Token)
	}
	return v, err
}

func kindOf(t token.Type) tree.Kind {
	switch t {
	case token.NUMBER, token.FLOAT:
		return tree.Number
	case token.BOOL:
		return tree.Bool
	}
	return tree.String
}

func textOf(t token.Token) (string, error) {
	switch t.Type {
	case token.STRING:
		s, err := hclstrconv.Unquote(t.Text)
		if err != nil {
			return "", &parser.PosError{Pos: t.Pos, Err: errors.New("this string has a line break or an invalid escape")}
		}
		return s, nil
	case token.HEREDOC:
		return t.Value().(string), nil
	}
	return t.Text, nil
}
