package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
	"github.com/open-nomad/open-nomad/nomad/login/fetch"
)

// TokenBytes limits the size of a token.
const TokenBytes = 64 << 10

// Leeways that a configuration of 0 means.
const (
	defaultExpiration = 150 * time.Second
	defaultClockSkew  = time.Minute
)

// Algorithms are the signing algorithms that an auth method may list.
var Algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512, jose.PS256, jose.PS384, jose.PS512, jose.EdDSA,
}

// algorithms returns the algorithms that a method accepts: the listed ones, or RS256 and those of fixed keys of other kinds.
func algorithms(c *api.ACLAuthMethodConfig, fixed fixedKeys) []jose.SignatureAlgorithm {
	var out []jose.SignatureAlgorithm
	for _, name := range c.SigningAlgs {
		if a := jose.SignatureAlgorithm(name); slices.Contains(Algorithms, a) {
			out = append(out, a)
		}
	}
	if len(c.SigningAlgs) > 0 {
		return out
	}
	out = []jose.SignatureAlgorithm{jose.RS256}
	for _, k := range fixed {
		out = append(out, algorithmsOf(k)[0])
	}
	return out
}

// expected is what the claims of a token must be.
type expected struct {
	issuers, audiences []string
	// authorized is the party that the token must be issued to, if the token names one.
	authorized string
	nonce      string
}

// verify verifies the signature and the claims of a token. It returns the claims, with numbers as [json.Number].
func verify(ctx context.Context, token string, algs []jose.SignatureAlgorithm, set keySet, c *api.ACLAuthMethodConfig, want expected, now time.Time) (map[string]any, error) {
	payload, err := verifySignature(ctx, token, algs, set)
	if err != nil {
		return nil, err
	}
	all, err := decodeClaims(payload)
	if err != nil {
		return nil, err
	}
	if err := checkTimes(all, c, now); err != nil {
		return nil, err
	}
	if err := checkParties(all, want); err != nil {
		return nil, err
	}
	return all, nil
}

// unverified wraps an error of a signature in the text that clients know.
func unverified(err error) error {
	return fault.New(fault.Unauthenticated, "unable to verify signature of JWT token: error verifying token signature: %w", err)
}

func verifySignature(ctx context.Context, token string, algs []jose.SignatureAlgorithm, set keySet) ([]byte, error) {
	if len(token) > TokenBytes {
		return nil, unverified(fault.New(fault.Invalid, "the token has %d bytes; at most %d are read", len(token), TokenBytes))
	}
	parsed, err := jose.ParseSignedCompact(token, algs)
	if err != nil {
		return nil, unverified(fetch.Short(err))
	}
	header := parsed.Signatures[0].Protected
	keys, err := set.keys(ctx, header.KeyID, jose.SignatureAlgorithm(header.Algorithm))
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, unverified(errors.New("no known key fits the key id and the algorithm of the token"))
	}
	var payload []byte
	err = cpulimit.Long(ctx, func() (err error) {
		for _, k := range keys[:min(len(keys), triedKeyMax)] {
			if payload, err = parsed.Verify(k); err == nil {
				return nil
			}
		}
		return unverified(errors.New("no known key verifies it"))
	})
	return payload, err
}

// decodeClaims decodes claims with numbers as they are written.
func decodeClaims(payload []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	var all map[string]any
	if err := d.Decode(&all); err != nil || all == nil {
		return nil, fault.New(fault.Unauthenticated, "the claims of the token are no JSON object")
	}
	return all, nil
}

// instant reads a claim that is a time; the zero time when it is absent.
func instant(all map[string]any, claim string) (time.Time, error) {
	v, ok := all[claim]
	if !ok || v == nil {
		return time.Time{}, nil
	}
	n, _ := v.(json.Number)
	f, err := n.Float64()
	if err != nil || f < 0 || f > 253402300799 {
		return time.Time{}, fault.New(fault.Unauthenticated, "claim %s of the token is no time", claim)
	}
	whole, part := math.Modf(f)
	return time.Unix(int64(whole), int64(part*1e9)), nil
}

// leeway is the configured leeway; 0 means otherwise, and a negative one none.
func leeway(configured, otherwise time.Duration) time.Duration {
	if configured == 0 {
		return otherwise
	}
	return max(configured, 0)
}

// checkTimes compares exp, nbf and iat with the clock. A token must have one of them. A token without exp expires
// ExpirationLeeway after the later one of the others; one with exp alone is valid NotBeforeLeeway before it, if that is set.
// All are compared with the leeway of clocks.
func checkTimes(all map[string]any, c *api.ACLAuthMethodConfig, now time.Time) error {
	exp, err := instant(all, "exp")
	if err != nil {
		return err
	}
	nbf, err := instant(all, "nbf")
	if err != nil {
		return err
	}
	iat, err := instant(all, "iat")
	if err != nil {
		return err
	}
	if exp.IsZero() && nbf.IsZero() && iat.IsZero() {
		return fault.New(fault.Unauthenticated, "the token has none of the claims exp, nbf and iat")
	}
	if exp.IsZero() {
		from := nbf
		if iat.After(from) {
			from = iat
		}
		exp = from.Add(leeway(c.ExpirationLeeway, defaultExpiration))
	}
	if nbf.IsZero() && iat.IsZero() && c.NotBeforeLeeway > 0 {
		nbf = exp.Add(-c.NotBeforeLeeway)
	}
	skew := leeway(c.ClockSkewLeeway, defaultClockSkew)
	switch {
	case !now.Before(exp.Add(skew)):
		return fault.New(fault.Unauthenticated, "the token expired at %s", exp.UTC().Format(time.RFC3339))
	case now.Add(skew).Before(nbf):
		return fault.New(fault.Unauthenticated, "the token is not valid before %s", nbf.UTC().Format(time.RFC3339))
	case now.Add(skew).Before(iat):
		return fault.New(fault.Unauthenticated, "the token was issued in the future, at %s: compare the clocks", iat.UTC().Format(time.RFC3339))
	}
	return nil
}

// checkParties compares the issuer, the audience, the authorized party and the nonce of a token.
func checkParties(all map[string]any, want expected) error {
	if issuer, _ := all["iss"].(string); len(want.issuers) > 0 && !slices.Contains(want.issuers, issuer) {
		return fault.New(fault.Unauthenticated, "the issuer of the token is not accepted")
	}
	audiences := texts(all["aud"])
	if len(want.audiences) > 0 && !slices.ContainsFunc(audiences, func(a string) bool { return slices.Contains(want.audiences, a) }) {
		return fault.New(fault.Unauthenticated, "the token is for another audience")
	}
	if want.authorized != "" {
		if party, present := all["azp"]; present && party != any(want.authorized) || !present && len(audiences) > 1 {
			return fault.New(fault.Unauthenticated, "the token was issued to another party")
		}
	}
	if nonce, _ := all["nonce"].(string); want.nonce != "" && nonce != want.nonce {
		return fault.New(fault.Unauthenticated, "the token belongs to another login: its nonce differs")
	}
	return nil
}

// texts reads a claim that is a text or a list of texts.
func texts(v any) (out []string) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, e := range list {
		if t, ok := e.(string); ok {
			out = append(out, t)
		}
	}
	return out
}
