package config

import (
	"bytes"
	"sort"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// The syntax that the parser knows wants each key of a block on a line of its own and without quotes. Older
// files put several on one line, with or without commas, and quote keys where they like: spread begins a new
// line at each, takes quotes away, makes objects of the blocks with free keys, and remembers what it added.
type spread struct {
	source []byte
	out    bytes.Buffer
	copied int
	// added are the places in out of bytes that the source does not have.
	added  []int
	frames []frame
	tokens hclsyntax.Tokens
	at     int
}

// frame is a body, or else a list, that is open.
type frame struct {
	list bool
	step step
	// key is that of the present item, labels tells that more words follow it, free that any key will do.
	key          string
	labels, free bool
}

// step is where in an item of a body we are.
type step uint8

const (
	between step = iota // two items
	header              // the key or block type, and labels
	value
)

// spreadLines returns the body with one key per line, or nil when that is not what it lacks.
func spreadLines(path string, body []byte) *spread {
	tokens, diags := hclsyntax.LexConfig(body, path, hcl.InitialPos)
	if diags.HasErrors() {
		return nil
	}
	s := &spread{source: body, tokens: tokens, frames: []frame{{}}}
	for ; s.at < len(tokens); s.at++ {
		if !s.take(tokens[s.at]) {
			return nil
		}
	}
	s.out.Write(body[s.copied:])
	return s
}

// take looks at the next token; false gives up.
func (s *spread) take(t hclsyntax.Token) bool {
	f := &s.frames[len(s.frames)-1]
	switch t.Type {
	case hclsyntax.TokenNewline, hclsyntax.TokenComment, hclsyntax.TokenEOF:
		return true
	case hclsyntax.TokenOBrace:
		if !f.list && f.step == between {
			return false
		}
		free := !f.list && !f.labels && (f.key == "meta" || f.key == "options")
		if free && f.step == header {
			s.add(t.Range.Start.Byte, '=')
		}
		return s.push(frame{free: free || f.list || f.step == value})
	case hclsyntax.TokenCBrace:
		s.add(t.Range.Start.Byte, '\n')
		return !f.list && f.step == between && s.pop()
	case hclsyntax.TokenCBrack:
		return f.list && s.pop()
	}
	if f.list {
		return s.element(t)
	}
	return s.item(f, t)
}

func (s *spread) element(t hclsyntax.Token) bool {
	switch t.Type {
	case hclsyntax.TokenComma, hclsyntax.TokenMinus, hclsyntax.TokenNumberLit, hclsyntax.TokenIdent:
		return true
	case hclsyntax.TokenOBrack:
		return s.push(frame{list: true})
	}
	return s.text(t)
}

func (s *spread) item(f *frame, t hclsyntax.Token) bool {
	switch f.step {
	case between:
		if t.Type == hclsyntax.TokenComma {
			s.add(t.Range.Start.Byte, '\n')
			s.blank(t)
			return true
		}
		s.add(t.Range.Start.Byte, '\n')
		f.step, f.key, f.labels = header, string(t.Bytes), false
		return t.Type == hclsyntax.TokenIdent || s.quotedKey(f)
	case header:
		if t.Type == hclsyntax.TokenEqual || t.Type == hclsyntax.TokenColon {
			f.step = value
			return true
		}
		f.labels = true
		return t.Type == hclsyntax.TokenIdent || s.text(t)
	}
	switch t.Type {
	case hclsyntax.TokenMinus:
		return true
	case hclsyntax.TokenOBrack:
		return s.push(frame{list: true})
	case hclsyntax.TokenNumberLit, hclsyntax.TokenIdent:
		f.step = between
		return true
	}
	f.step = between
	return s.text(t)
}

// text passes over a quoted string or a heredoc.
func (s *spread) text(t hclsyntax.Token) bool {
	end := hclsyntax.TokenCQuote
	switch t.Type {
	case hclsyntax.TokenOQuote:
	case hclsyntax.TokenOHeredoc:
		end = hclsyntax.TokenCHeredoc
	default:
		return false
	}
	for depth := 1; depth > 0; {
		if s.at++; s.at >= len(s.tokens) {
			return false
		}
		switch s.tokens[s.at].Type {
		case t.Type:
			depth++
		case end:
			depth--
		}
	}
	return true
}

func (s *spread) push(f frame) bool {
	s.frames = append(s.frames, f)
	return true
}

// pop ends a body or a list, which was the value of the item around it.
func (s *spread) pop() bool {
	if len(s.frames) == 1 {
		return false
	}
	s.frames = s.frames[:len(s.frames)-1]
	s.frames[len(s.frames)-1].step = between
	return true
}

// quotedKey passes over a key in quotes, which it takes away where the parser does not want them.
func (s *spread) quotedKey(f *frame) bool {
	if s.at+2 >= len(s.tokens) {
		return false
	}
	open, word, end := s.tokens[s.at], s.tokens[s.at+1], s.tokens[s.at+2]
	if open.Type != hclsyntax.TokenOQuote || word.Type != hclsyntax.TokenQuotedLit || end.Type != hclsyntax.TokenCQuote {
		return false
	}
	s.at += 2
	f.key = string(word.Bytes)
	if !f.free && hclsyntax.ValidIdentifier(f.key) {
		s.blank(open)
		s.blank(end)
	}
	return true
}

// blank puts a blank for a token of one byte.
func (s *spread) blank(t hclsyntax.Token) {
	s.out.Write(s.source[s.copied:t.Range.Start.Byte])
	s.out.WriteByte(' ')
	s.copied = t.Range.End.Byte
}

// add puts a byte before a place of the source.
func (s *spread) add(before int, what byte) {
	s.out.Write(s.source[s.copied:before])
	s.copied = before
	s.added = append(s.added, s.out.Len())
	s.out.WriteByte(what)
}

// restore gives a node and all below it the places that they have in the source.
func (s *spread) restore(n *node) {
	added := sort.SearchInts(s.added, n.rng.Start.Byte)
	from := max(0, min(n.rng.Start.Byte-added, len(s.source)))
	before := s.source[:from]
	n.rng.Start.Line = 1 + bytes.Count(before, []byte("\n"))
	n.rng.Start.Column = from - bytes.LastIndexByte(before, '\n')
	for _, f := range n.fields {
		s.restore(f.node)
	}
}
