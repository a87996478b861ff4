// Package nesting refuses texts of job files whose nesting could overflow the stack of the parsers, which recurse: it looks
// at them with the lexer, which does not.
package nesting

import (
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec/bounds"
)

// chainMax bounds what nests in one expression without brackets: operators, conditions, indexes and calls.
const chainMax = 1000

// Check refuses texts in HCL that are too large or nested too deeply to be parsed safely. Its errors are of the class
// [fault.TooLarge] or [fault.Invalid] and begin with the path.
func Check(path string, body []byte) error {
	if err := bounds.CheckSize(path, len(body)); err != nil {
		return err
	}
	tokens, _ := hclsyntax.LexConfig(body, path, hcl.InitialPos)
	return checkNesting(path, tokens)
}

// CheckJSON is [Check] for a file in JSON. Its texts may be templates, whatever is escaped in them.
func CheckJSON(path string, body []byte) error {
	if err := bounds.CheckSize(path, len(body)); err != nil {
		return err
	}
	if err := bounds.CheckJSON(body); err != nil {
		return fault.New(fault.Of(err), "%s: %w", path, err)
	}
	in := jsontext.NewDecoder(strings.NewReader(string(body)), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		at := in.InputOffset()
		token, err := in.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			var whole any
			if err := json.Unmarshal(body, &whole); err == nil {
				return nil
			}
			return fault.New(fault.Invalid, "%s: %w", path, err)
		}
		if token.Kind() == '0' && tooLarge(token.String()) {
			return fault.New(fault.Invalid, "%s: byte %d: a number is out of range", path, at)
		}
		if s := ""; token.Kind() == '"' {
			if s = token.String(); !strings.Contains(s, "${") && !strings.Contains(s, "%{") {
				continue
			}
			tokens, _ := hclsyntax.LexTemplate([]byte(s), path, hcl.InitialPos)
			if err := checkNesting(path, tokens); err != nil {
				return err
			}
		}
	}
}

// tooLarge reports a number that takes long to write out.
func tooLarge(number string) bool {
	f, _, err := big.ParseFloat(number, 10, 64, big.ToNearestEven)
	return err == nil && f.MantExp(nil) > bounds.ExponentMax
}

// bracket is one that is open, and what nests inside of it without brackets.
type bracket struct {
	// lines are ends of expressions.
	lines bool
	chain int
}

// nesting follows tokens into brackets and out of them.
type nesting struct {
	open []bracket
	// controls are the conditions and loops of templates that are open.
	controls int
}

func (n *nesting) top() *bracket { return &n.open[len(n.open)-1] }

func checkNesting(path string, tokens hclsyntax.Tokens) error {
	n := nesting{open: []bracket{{lines: true}}}
	for i, t := range tokens {
		if t.Type == hclsyntax.TokenNumberLit && tooLarge(string(t.Bytes)) {
			return fault.New(fault.Invalid, "%s:%d:%d: a number is out of range", path, t.Range.Start.Line, t.Range.Start.Column)
		}
		n.step(t, tokens[i+1:])
		if len(n.open) > bounds.DepthMax+1 || n.controls > bounds.DepthMax || n.top().chain > chainMax {
			return fault.New(fault.Invalid, "%s:%d:%d: nested deeper than %d levels", path, t.Range.Start.Line, t.Range.Start.Column, bounds.DepthMax)
		}
	}
	return nil
}

func (n *nesting) step(t hclsyntax.Token, rest hclsyntax.Tokens) {
	switch t.Type {
	case hclsyntax.TokenOBrace:
		n.open = append(n.open, bracket{lines: word(rest) != "for"})
	case hclsyntax.TokenOBrack, hclsyntax.TokenOParen:
		n.top().chain++ // of an index or a call, what is before it is inside of it
		n.open = append(n.open, bracket{})
	case hclsyntax.TokenTemplateControl:
		switch word(rest) {
		case "if", "for":
			n.controls++
		case "endif", "endfor":
			n.controls = max(0, n.controls-1)
		}
		n.open = append(n.open, bracket{})
	case hclsyntax.TokenTemplateInterp, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
		n.open = append(n.open, bracket{})
	case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd,
		hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
		if last := len(n.open) - 1; last > 0 {
			n.open = n.open[:last]
		}
	case hclsyntax.TokenComma:
		n.top().chain = 0
	case hclsyntax.TokenNewline, hclsyntax.TokenComment:
		if n.top().lines && strings.HasSuffix(string(t.Bytes), "\n") {
			n.top().chain = 0
		}
	case hclsyntax.TokenMinus, hclsyntax.TokenBang, hclsyntax.TokenQuestion, hclsyntax.TokenPlus, hclsyntax.TokenStar,
		hclsyntax.TokenSlash, hclsyntax.TokenPercent, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenEqualOp,
		hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThan,
		hclsyntax.TokenGreaterThanEq:
		n.top().chain++
	}
}

// word is the next one, on this line or another.
func word(tokens hclsyntax.Tokens) string {
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenNewline, hclsyntax.TokenComment:
		case hclsyntax.TokenIdent:
			return string(t.Bytes)
		default:
			return ""
		}
	}
	return ""
}
