package identity_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// cluster is a state with root keys and a service that signs with one of them.
type cluster struct {
	*identity.Service
	state  *state.Store
	active *identity.Key
	now    time.Time
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{state: state.New(), now: time.Unix(1_800_000_000, 0)}
	c.rotate(t)
	c.Service = identity.New(identity.Config{
		State: c.state, Region: "global", Issuer: "https://issuer.example",
		Active: func() (*identity.Key, error) { return c.active, nil }, Now: func() time.Time { return c.now },
	})
	return c
}

// rotate makes a new active key; the others stay in the state.
func (c *cluster) rotate(t testing.TB) {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	edPublic, edPrivate, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.active = &identity.Key{ID: uuid.NewString(), RSA: private, Ed25519: edPrivate}
	w := c.state.Write(c.state.Read().Index()+1, c.now)
	w.PutRootKey(&api.RootKey{RootKeyMeta: api.RootKeyMeta{KeyID: c.active.ID, State: api.RootKeyActive}, Public: public, PublicEd25519: edPublic})
	w.Commit()
}

func workload() *identity.Claims {
	return &identity.Claims{
		Subject: "global:default:web:g:t:default", Audience: []string{identity.AudienceWorkload},
		Namespace: "default", JobID: "web", AllocationID: "a", Task: "t",
	}
}

func (c *cluster) sign(t testing.TB, claims *identity.Claims, a identity.Algorithm) string {
	t.Helper()
	token, id, err := c.Sign(t.Context(), claims, a)
	if err != nil || id != c.active.ID || !identity.IsToken(token) {
		t.Fatalf("%s %q: %v", token, id, err)
	}
	return token
}

func TestSignedClaimsAreVerified(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, a := range []identity.Algorithm{identity.EdDSA, identity.RS256} {
		claims := workload()
		claims.TTL, claims.Extra = time.Hour, map[string]string{"team": "red", "sub": "root", "nomad_node_id": "n", "": "x", "NOMAD_NODE_ID": "n", "\u017fub": "root", "Nomad_x": "y"}
		got, id, err := c.Verify(c.sign(t, claims, a), identity.AudienceWorkload)
		if err != nil || id != c.active.ID {
			t.Fatalf("%s: %q %v", a, id, err)
		}
		want := workload()
		want.Issuer, want.ID, want.IssuedAt, want.NotBefore = "https://issuer.example", claims.ID, c.now.Unix(), c.now.Unix()
		want.Expiry, want.Extra = c.now.Add(time.Hour).Unix(), map[string]string{"team": "red"}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
}

// TestClocksOfServersDiffer verifies on servers whose clocks are 10 minutes ahead and behind.
func TestClocksOfServersDiffer(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	short, long := workload(), workload()
	short.TTL, long.TTL = 5*time.Minute, time.Hour
	tokens := map[string]string{"short": c.sign(t, short, identity.EdDSA), "long": c.sign(t, long, identity.EdDSA), "endless": c.sign(t, workload(), identity.EdDSA)}
	signed := c.now
	for ahead, expired := range map[time.Duration]string{-10 * time.Minute: "", 10 * time.Minute: "short", 2 * time.Hour: "short long"} {
		c.now = signed.Add(ahead)
		for name, token := range tokens {
			got, _, err := c.Verify(token, identity.AudienceWorkload)
			if errors.Is(err, identity.ErrExpired) != strings.Contains(expired, name) || got == nil {
				t.Errorf("%s, %s ahead: %v", name, ahead, err)
			}
		}
	}
}

func TestRotationKeepsTokensUntilTheirKeyIsRemoved(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	first := c.active.ID
	old := []string{c.sign(t, workload(), identity.EdDSA), c.sign(t, workload(), identity.RS256)}
	c.rotate(t)
	for _, token := range append(old, c.sign(t, workload(), identity.EdDSA)) {
		if _, _, err := c.Verify(token, identity.AudienceWorkload); err != nil {
			t.Error(err)
		}
	}
	w := c.state.Write(c.state.Read().Index()+1, c.now)
	w.DeleteRootKey(first)
	w.Commit()
	for _, token := range old {
		if got, id, err := c.Verify(token, identity.AudienceWorkload); !errors.Is(err, identity.ErrUnknownKey) || got != nil || id != first {
			t.Errorf("the key is removed: %v %v", got, err)
		}
	}
}

func TestARootKeyWithoutEd25519SignsWithRSA(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.active.Ed25519 = nil
	if _, _, err := c.Verify(c.sign(t, workload(), identity.EdDSA), identity.AudienceWorkload); err != nil {
		t.Error(err)
	}
}

func TestATokenForOneUseIsRefusedForOthers(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	node := &identity.Claims{Audience: []string{identity.AudienceNode}, NodeID: "n"}
	intro := &identity.Claims{Audience: []string{identity.AudienceIntroduction}, NodeName: "n"}
	third := workload()
	third.Audience = []string{"third.example"}
	forged := workload() // a job that names the audience of nodes
	forged.Audience = []string{identity.AudienceNode, identity.AudienceIntroduction}
	uses := map[string]*identity.Claims{identity.AudienceWorkload: workload(), identity.AudienceNode: node, identity.AudienceIntroduction: intro}
	tokens := maps.Clone(uses)
	tokens["third"], tokens["forged"] = third, forged
	for use, claims := range tokens {
		token := c.sign(t, claims, identity.EdDSA)
		for audience := range uses {
			if _, _, err := c.Verify(token, audience); (err == nil) != (audience == use) {
				t.Errorf("a token for %s as one for %s: %v", use, audience, err)
			}
		}
	}
}

// Other texts with the same signature would fill the memory of those that were verified.
func TestATokenHasOneText(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	token := c.sign(t, workload(), identity.EdDSA)
	last := strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", token[len(token)-1])
	for _, other := range []string{
		token[:9] + "\n" + token[9:], token + "\r\n",
		token[:len(token)-1] + "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[last^1:][:1],
	} {
		if _, _, err := c.Verify(other, identity.AudienceWorkload); !errors.Is(err, fault.Denied) {
			t.Errorf("%q is accepted: %v", other, err)
		}
	}
}

func TestForgedTokensAreRefused(t *testing.T) {
	t.Parallel()
	c, other := newCluster(t), newCluster(t)
	body, err := workload().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	make := func(a identity.Algorithm, key any, kid string) string {
		s, err := jose.NewSigner(jose.SigningKey{Algorithm: a, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		o, err := s.Sign(body)
		if err != nil {
			t.Fatal(err)
		}
		token, err := o.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	id, ed := c.active.ID, c.active.ID+"-ed25519"
	row := c.state.Read().RootKey(id)
	good := c.sign(t, workload(), identity.EdDSA)
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"of another cluster":          other.sign(t, workload(), identity.EdDSA),
		"another cluster's key":       make(identity.EdDSA, other.active.Ed25519, ed),
		"another cluster's RSA key":   make(identity.RS256, other.active.RSA, id),
		"HS256 with the RSA key":      make(jose.HS256, row.Public, id),
		"HS256 with the Ed25519 key":  make(jose.HS256, []byte(row.PublicEd25519), ed),
		"RS512":                       make(jose.RS512, c.active.RSA, id),
		"PS256":                       make(jose.PS256, c.active.RSA, id),
		"RSA under the kid of EdDSA":  make(identity.RS256, c.active.RSA, ed),
		"EdDSA under the kid of RSA":  make(identity.EdDSA, c.active.Ed25519, id),
		"no kid":                      make(identity.EdDSA, c.active.Ed25519, ""),
		"kid is the suffix":           make(identity.EdDSA, c.active.Ed25519, "-ed25519"),
		"kid has the suffix twice":    make(identity.EdDSA, c.active.Ed25519, ed+"-ed25519"),
		"kid is a path":               make(identity.EdDSA, c.active.Ed25519, "../"+ed),
		"kid is a prefix":             make(identity.RS256, c.active.RSA, id[:8]),
		"alg none":                    encode(fmt.Sprintf(`{"alg":"none","kid":%q}`, id)) + "." + encode(string(body)) + ".",
		"alg none with a signature":   encode(fmt.Sprintf(`{"alg":"none","kid":%q}`, ed)) + "." + parts[1] + "." + parts[2],
		"other claims":                parts[0] + "." + encode(strings.Replace(string(body), `"web"`, `"db"`, 1)) + "." + parts[2],
		"no signature":                parts[0] + "." + parts[1] + ".",
		"a key in the header":         encode(fmt.Sprintf(`{"alg":"EdDSA","kid":%q,"jwk":{"kty":"OKP","crv":"Ed25519","x":%q}}`, ed, base64.RawURLEncoding.EncodeToString(other.active.Ed25519.Public().(ed25519.PublicKey)))) + "." + parts[1] + "." + parts[2],
		"a critical header":           encode(fmt.Sprintf(`{"alg":"EdDSA","kid":%q,"crit":["x"],"x":1}`, ed)) + "." + parts[1] + "." + parts[2],
		"only dots":                   "eyJ..",
		"nothing":                     "",
		"huge":                        good + strings.Repeat("A", 20<<10),
		"with whitespace in the end ": good + " ",
	} {
		if claims, _, err := c.Verify(token, identity.AudienceWorkload); err == nil || claims != nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func FuzzVerify(f *testing.F) {
	c := newCluster(f)
	good := c.sign(f, workload(), identity.EdDSA)
	f.Add(good)
	f.Add("eyJ.e30.")
	f.Fuzz(func(t *testing.T, token string) {
		if _, _, err := c.Verify(token, identity.AudienceWorkload); err == nil && token != good {
			t.Errorf("%q is accepted", token)
		}
	})
}

func BenchmarkSign(b *testing.B) {
	c := newCluster(b)
	for _, a := range []identity.Algorithm{identity.EdDSA, identity.RS256} {
		b.Run(string(a), func(b *testing.B) {
			for b.Loop() {
				began := time.Now()
				const batch = 100
				for range batch {
					c.sign(b, workload(), a)
				}
				b.ReportMetric(float64(time.Since(began).Microseconds())/batch, "us/token")
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	c := newCluster(b)
	for _, a := range []identity.Algorithm{identity.EdDSA, identity.RS256} {
		b.Run(string(a), func(b *testing.B) {
			token := c.sign(b, workload(), a)
			for b.Loop() {
				began := time.Now()
				const batch = 100
				for range batch {
					if _, _, err := c.Verify(token, identity.AudienceWorkload); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(time.Since(began).Microseconds())/batch, "us/token")
			}
		})
	}
}

// read returns the claims of a token for any audience, verified as a third party does, and its algorithm.
func (c *cluster) read(t *testing.T, token string) (*identity.Claims, string) {
	t.Helper()
	signed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA, jose.RS256})
	if err != nil {
		t.Fatal(err)
	}
	var public any = c.active.RSA.Public()
	if signed.Headers[0].Algorithm == "EdDSA" {
		public = c.active.Ed25519.Public()
	}
	claims := &identity.Claims{}
	if err := signed.Claims(public, claims); err != nil {
		t.Fatal(err)
	}
	return claims, signed.Headers[0].Algorithm
}
