package login

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/login/provider"
)

// Limits of logins at providers.
const (
	// flowLife is how long a user has for the pages of the provider.
	flowLife = 10 * time.Minute
	// usedMax limits the states that are remembered as used.
	usedMax = 1 << 16

	randomBytes = 32
	stateBytes  = 2*randomBytes + 8
)

var errNoFlow = fault.New(fault.Unauthenticated, "no login has begun with this auth method, state, client nonce and redirect URI, or it is completed or expired: begin again")

// flows keeps what a login at a provider needs between its two requests: in the state itself, which is encrypted. So logins that
// begin and never end take no memory. The state is bound to the auth method, the redirect URI and the nonce of the client.
type flows struct {
	aead cipher.AEAD
	mu   sync.Mutex
	// used has the states that completed logins, ends the same by age with their expiry.
	used map[string]bool
	ends []used
}

type used struct {
	state   string
	expires time.Time
}

func newFlows() *flows {
	key := make([]byte, randomBytes)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the length of the key is right
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return &flows{aead: aead, used: map[string]bool{}}
}

// bound is what a state is bound to.
func bound(m *api.ACLAuthMethod, redirect, clientNonce string) []byte {
	b := binary.BigEndian.AppendUint64(nil, m.ModifyIndex)
	for _, text := range []string{m.Name, redirect, clientNonce} {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(text))), text...)
	}
	return b
}

// begin makes the random values of a login.
func (f *flows) begin(m *api.ACLAuthMethod, redirect, clientNonce string, now time.Time) provider.Login {
	plain := make([]byte, 2*randomBytes, stateBytes)
	_, _ = rand.Read(plain) // never fails
	plain = binary.BigEndian.AppendUint64(plain, uint64(now.Add(flowLife).UnixNano()))
	sealed := f.aead.Seal(nil, nil, plain, bound(m, redirect, clientNonce)) //nolint:gosec // the cipher makes the nonce
	return loginOf(plain, base64.RawURLEncoding.EncodeToString(sealed), redirect)
}

func loginOf(plain []byte, state, redirect string) provider.Login {
	e := base64.RawURLEncoding
	return provider.Login{
		RedirectURI: redirect, State: state, Nonce: e.EncodeToString(plain[:randomBytes]), Verifier: e.EncodeToString(plain[randomBytes : 2*randomBytes]),
	}
}

// finish returns the values of the login with a state, once.
func (f *flows) finish(m *api.ACLAuthMethod, redirect, clientNonce, state string, now time.Time) (provider.Login, error) {
	sealed, err := base64.RawURLEncoding.DecodeString(state)
	if err != nil {
		return provider.Login{}, errNoFlow
	}
	plain, err := f.aead.Open(nil, nil, sealed, bound(m, redirect, clientNonce)) //nolint:gosec // as above
	if err != nil || len(plain) != stateBytes {
		return provider.Login{}, errNoFlow
	}
	expires := time.Unix(0, int64(binary.BigEndian.Uint64(plain[2*randomBytes:])))
	if !now.Before(expires) {
		return provider.Login{}, errNoFlow
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// A state is remembered for longer than it is valid, so that the oldest ones are first.
	for len(f.ends) > 0 && !now.Before(f.ends[0].expires) {
		delete(f.used, f.ends[0].state)
		f.ends = f.ends[1:]
	}
	if f.used[string(sealed)] {
		return provider.Login{}, errNoFlow
	}
	if len(f.ends) >= usedMax {
		return provider.Login{}, fault.New(fault.Exhausted, "%d logins were completed within %s: try again in a minute", usedMax, flowLife)
	}
	f.used[string(sealed)] = true
	f.ends = append(f.ends, used{string(sealed), now.Add(flowLife)})
	return loginOf(plain, state, redirect), nil
}
