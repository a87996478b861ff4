package volumespec

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/open-nomad/open-nomad/api/fault"
)

// parseHCL reads volume files as they are written everywhere: keys may be quoted, commas and line
// breaks separate alike, and nothing is interpolated. The parser of job files is stricter, so only
// its lexer is used. Nesting was bounded before.
func parseHCL(path string, source []byte) (items []item, err error) {
	tokens, diags := hclsyntax.LexConfig(source, path, hcl.InitialPos)
	if diags.HasErrors() {
		d := diags[0]
		return nil, fault.Wrap(fault.Invalid, &problem{path, placeOf(d.Subject.Start), d.Summary})
	}
	p := &hclParser{path: path, source: source}
	for _, t := range tokens {
		if t.Type != hclsyntax.TokenComment {
			p.tokens = append(p.tokens, t)
		}
	}
	items = p.items(hclsyntax.TokenEOF)
	if p.failed != nil {
		return nil, fault.Wrap(fault.Invalid, p.failed)
	}
	return items, nil
}

type hclParser struct {
	path   string
	source []byte
	tokens hclsyntax.Tokens
	next   int
	// failed is the first mistake; after it nothing more is read.
	failed *problem
}

func placeOf(p hcl.Pos) place { return place{p.Line, p.Column} }

func (p *hclParser) peek() hclsyntax.Token {
	if p.failed != nil || p.next >= len(p.tokens) {
		return p.tokens[len(p.tokens)-1]
	}
	return p.tokens[p.next]
}

func (p *hclParser) take() hclsyntax.Token {
	t := p.peek()
	if t.Type != hclsyntax.TokenEOF {
		p.next++
	}
	return t
}

func (p *hclParser) fail(t hclsyntax.Token, format string, args ...any) {
	if p.failed == nil {
		p.failed = &problem{p.path, placeOf(t.Range.Start), fmt.Sprintf(format, args...)}
		p.next = len(p.tokens)
	}
}

// skip passes over separators.
func (p *hclParser) skip() {
	for p.peek().Type == hclsyntax.TokenNewline || p.peek().Type == hclsyntax.TokenComma {
		p.take()
	}
}

// items reads keys and values up to the end token.
func (p *hclParser) items(end hclsyntax.TokenType) []item {
	var all []item
	for {
		p.skip()
		t := p.peek()
		switch {
		case t.Type == end || p.failed != nil:
			p.take()
			return all
		case t.Type == hclsyntax.TokenEOF:
			p.fail(t, "the file ends inside a block: a closing brace is missing")
			return all
		}
		all = append(all, p.item())
	}
}

func (p *hclParser) item() item {
	t := p.peek()
	it := item{at: placeOf(t.Range.Start)}
	switch t.Type {
	case hclsyntax.TokenIdent:
		it.key = string(p.take().Bytes)
	case hclsyntax.TokenOQuote:
		it.key = p.quoted()
	default:
		p.fail(t, "a key is needed here, not %q", t.Bytes)
		return it
	}
	switch t = p.peek(); t.Type {
	case hclsyntax.TokenEqual, hclsyntax.TokenColon:
		p.take()
		it.value = p.value()
	case hclsyntax.TokenOBrace:
		it.value = p.value()
	default:
		p.fail(t, "after %q an equals sign or an opening brace is needed", it.key)
	}
	return it
}

func (p *hclParser) value() value {
	t := p.peek()
	v := value{at: placeOf(t.Range.Start)}
	switch t.Type {
	case hclsyntax.TokenOQuote:
		v.text = p.quoted()
	case hclsyntax.TokenOHeredoc:
		v.text = p.heredoc()
	case hclsyntax.TokenNumberLit:
		v.kind, v.text = number, string(p.take().Bytes)
	case hclsyntax.TokenMinus:
		p.take()
		at := v.at
		v = p.value()
		v.at, v.text = at, "-"+v.text
	case hclsyntax.TokenIdent:
		v.kind, v.text = boolean, string(p.take().Bytes)
		if v.text == "null" {
			v.kind = null
		} else if v.text != "true" && v.text != "false" {
			p.fail(t, "%q is not a value: put strings in quotes", v.text)
		}
	case hclsyntax.TokenOBrack:
		p.take()
		v.kind, v.list = list, p.values()
	case hclsyntax.TokenOBrace:
		p.take()
		v.kind, v.items = body, p.items(hclsyntax.TokenCBrace)
	default:
		p.fail(t, "a value is needed here, not %q", t.Bytes)
	}
	return v
}

func (p *hclParser) values() []value {
	var all []value
	for {
		p.skip()
		t := p.peek()
		switch {
		case t.Type == hclsyntax.TokenCBrack || p.failed != nil:
			p.take()
			return all
		case t.Type == hclsyntax.TokenEOF:
			p.fail(t, "the file ends inside a list: a closing bracket is missing")
			return all
		}
		all = append(all, p.value())
	}
}

// until takes tokens up to the closing one of the same depth and returns the text between.
func (p *hclParser) until(opens, closes hclsyntax.TokenType) string {
	first := p.take()
	from, depth := first.Range.End.Byte, 1
	for {
		t := p.take()
		switch t.Type {
		case opens:
			depth++
		case closes:
			if depth--; depth == 0 {
				return string(p.source[from:t.Range.Start.Byte])
			}
		case hclsyntax.TokenEOF:
			p.fail(first, "this string is not closed")
			return ""
		}
	}
}

func (p *hclParser) quoted() string {
	t := p.peek()
	raw := p.until(hclsyntax.TokenOQuote, hclsyntax.TokenCQuote)
	if !strings.Contains(raw, `\`) {
		return raw
	}
	s, err := strconv.Unquote(`"` + raw + `"`)
	if err != nil {
		p.fail(t, "this string has a backslash that means nothing")
	}
	return s
}

// heredoc returns the lines of a heredoc; with <<- the common indentation is dropped.
func (p *hclParser) heredoc() string {
	indented := strings.HasPrefix(string(p.peek().Bytes), "<<-")
	raw := p.until(hclsyntax.TokenOHeredoc, hclsyntax.TokenCHeredoc)
	if !indented {
		return raw
	}
	lines := strings.SplitAfter(raw, "\n")
	drop := -1
	for _, l := range lines {
		if bare := strings.TrimLeft(l, " \t"); bare != "" && (drop < 0 || len(l)-len(bare) < drop) {
			drop = len(l) - len(bare)
		}
	}
	for i, l := range lines {
		lines[i] = l[min(max(drop, 0), len(l)):]
	}
	return strings.Join(lines, "")
}
