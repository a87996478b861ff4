package secrets

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"maps"
	"strings"
	"sync"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Keys are the root keys of the cluster as they encrypt data.
type Keys interface {
	// DataKey is the active one; it fails while too few servers have it.
	DataKey(ctx context.Context) (id string, key []byte, err error)
	// DataKeyOf is the one with the id.
	DataKeyOf(id string) ([]byte, error)
}

// Config is what a [Box] needs.
type Config struct {
	Keys Keys
	// Variable returns the items of a variable; none when it does not exist.
	Variable func(namespace, path string) (map[string]string, error)
}

// Box seals and opens sets of secrets.
type Box struct {
	Config
	derived sync.Map // of what is derived from root keys, by their id
}

// New makes a box.
func New(c Config) *Box { return &Box{Config: c} }

// derived seals values with a key that is derived from a root key, and makes their nonces with another one.
type derived struct {
	aead   cipher.AEAD
	nonces []byte
}

// prefix begins a sealed value: "sealed.<root key>.<nonce and ciphertext>".
const prefix = "sealed."

// variable is the name of the entry that refers to a variable by "<namespace>/<path>".
const variable = ""

// Reference is the set of the items of a variable.
func Reference(namespace, path string) map[string]string {
	return map[string]string{variable: namespace + "/" + path}
}

func (b *Box) derive(id string, root []byte) (*derived, error) {
	if known, ok := b.derived.Load(id); ok {
		return known.(*derived), nil
	}
	keys, err := hkdf.Key(sha256.New, root, nil, "secrets of volumes", 64)
	if err == nil {
		var block cipher.Block
		if block, err = aes.NewCipher(keys[:32]); err == nil {
			d := &derived{nonces: keys[32:]}
			if d.aead, err = cipher.NewGCM(block); err == nil {
				b.derived.Store(id, d)
				return d, nil
			}
		}
	}
	return nil, fault.New(fault.Internal, "AES-256-GCM: %w", err)
}

// Seal seals the values of users, whatever they look like. A value that one of the known sets has under the same name keeps the form
// that it has there, also after another root key became active.
func (b *Box) Seal(ctx context.Context, plain map[string]string, known ...map[string]string) (map[string]string, error) {
	if len(plain) == 0 {
		return nil, nil
	}
	set := make(map[string]string, len(plain))
	for name, value := range plain {
		if name == variable {
			return nil, fault.New(fault.Invalid, "a key of the secrets is empty: name it")
		}
		for _, k := range known {
			if old, err := b.open(name, k[name]); err == nil && old == value {
				set[name] = k[name]
			}
		}
		if set[name] != "" {
			continue
		}
		sealed, err := b.seal(ctx, name, value)
		if err != nil {
			return nil, err
		}
		set[name] = sealed
	}
	return set, nil
}

func (b *Box) seal(ctx context.Context, name, value string) (string, error) {
	id, root, err := b.Keys.DataKey(ctx)
	if err != nil {
		return "", err
	}
	d, err := b.derive(id, root)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, d.nonces)
	mac.Write([]byte(name + "\x00" + value))
	nonce := mac.Sum(nil)[:d.aead.NonceSize()]
	return prefix + id + "." + base64.RawStdEncoding.EncodeToString(d.aead.Seal(nonce, nonce, []byte(value), []byte(name))), nil
}

// keyOf is the root key of a sealed value; empty when it is none.
func keyOf(sealed string) string {
	rest, ok := strings.CutPrefix(sealed, prefix)
	id, _, whole := strings.Cut(rest, ".")
	if !ok || !whole {
		return ""
	}
	return id
}

func (b *Box) open(name, sealed string) (string, error) {
	id := keyOf(sealed)
	if id == "" {
		return "", errors.New("it is not encrypted")
	}
	root, err := b.Keys.DataKeyOf(id)
	if err != nil {
		return "", err
	}
	d, err := b.derive(id, root)
	if err != nil {
		return "", err
	}
	raw, err := base64.RawStdEncoding.DecodeString(sealed[len(prefix)+len(id)+1:])
	if n := d.aead.NonceSize(); err == nil && len(raw) >= n {
		var plain []byte
		if plain, err = d.aead.Open(nil, raw[:n], raw[n:], []byte(name)); err == nil {
			return string(plain), nil
		}
	}
	return "", errors.New("it does not decrypt with root key " + id)
}

// Open returns the secrets of a set as a plugin gets them. Of names the volume, or what else the secrets are for.
func (b *Box) Open(of string, set map[string]string) (map[string]string, error) {
	plain := make(map[string]string, len(set))
	if at, refers := set[variable]; refers {
		items, err := b.items(of, at)
		if err != nil && (len(set) == 1 || !errors.Is(err, errMissing)) {
			return nil, err
		}
		maps.Copy(plain, items)
	}
	for name, sealed := range set {
		if name == variable {
			continue
		}
		value, err := b.open(name, sealed)
		if err != nil {
			return nil, fault.New(fault.Unavailable, "secret %q of %s cannot be read: register the volume again with its secrets, or restore the root key: %w", name, of, err)
		}
		plain[name] = value
	}
	if len(plain) == 0 {
		return nil, nil
	}
	return plain, nil
}

// errMissing marks that a variable does not exist. Secrets that a request brings do without it.
var errMissing = errors.New("the variable has no items")

// items returns the items of the variable that a set refers to.
func (b *Box) items(of, at string) (map[string]string, error) {
	namespace, path, _ := strings.Cut(at, "/")
	items, err := b.Variable(namespace, path)
	switch {
	case err != nil:
		return nil, fault.New(fault.Unavailable, "the secrets of %s are those of variable %q in namespace %q: %w", of, path, namespace, err)
	case len(items) == 0:
		return nil, fault.New(fault.Unavailable, "the secrets of %s are those of variable %q in namespace %q, but %w: `nomad var put -namespace %s %s KEY=VALUE` sets them",
			of, path, namespace, errMissing, namespace, path)
	}
	return items, nil
}

// Plain returns all of the sets that can be read now. It serves to hide secrets in texts.
func (b *Box) Plain(sets ...map[string]string) (all []map[string]string) {
	for _, set := range sets {
		if len(set) == 0 {
			continue
		}
		plain := map[string]string{}
		for name, value := range set {
			if name == variable {
				items, err := b.items("", value)
				if err == nil {
					all = append(all, items)
				}
			} else if value, err := b.open(name, value); err == nil {
				plain[name] = value
			}
		}
		all = append(all, plain)
	}
	return all
}
