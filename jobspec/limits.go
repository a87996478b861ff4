package jobspec

import (
	"math/big"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Limits of a job, for texts that nobody wrote by hand.
const (
	// SizeMax is the largest file in bytes.
	SizeMax = 1 << 20
	// DepthMax is the deepest nesting of brackets and templates.
	DepthMax = 100
	// chainMax bounds the signs and conditions of one expression.
	chainMax = 1000
	// GroupsMax is how many groups a job may have.
	GroupsMax = 10_000
	// NamesMax is how many variables and how many locals a file may have.
	NamesMax = 1000
)

// CheckSize refuses texts that are too large or nested too deeply to be parsed safely.
func CheckSize(path string, body []byte) error {
	if len(body) > SizeMax {
		return fault.New(fault.TooLarge, "%s: %d bytes, at most %d are read", path, len(body), SizeMax)
	}
	tokens, _ := hclsyntax.LexConfig(body, path, hcl.InitialPos)
	depth, chain := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp,
			hclsyntax.TokenTemplateControl, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
			depth++
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd,
			hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
			depth--
		case hclsyntax.TokenMinus, hclsyntax.TokenBang, hclsyntax.TokenQuestion:
			// These nest without closing: the parser recurses once for each in an expression.
			chain++
		case hclsyntax.TokenNewline, hclsyntax.TokenComma:
			chain = 0
		case hclsyntax.TokenNumberLit:
			if f, _, err := big.ParseFloat(string(t.Bytes), 10, 64, big.ToNearestEven); err == nil && f.MantExp(nil) > exponentMax {
				return fault.New(fault.Invalid, "%s:%d:%d: a number is out of range", path, t.Range.Start.Line, t.Range.Start.Column)
			}
		}
		if depth > DepthMax || chain > chainMax {
			return fault.New(fault.Invalid, "%s:%d:%d: nested deeper than %d levels", path, t.Range.Start.Line, t.Range.Start.Column, DepthMax)
		}
	}
	return nil
}
