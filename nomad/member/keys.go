package member

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// CheckKey reports why a gossip key cannot be used.
func CheckKey(key string) error {
	_, err := decodeKey(key)
	return err
}

func decodeKey(key string) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		return nil, fault.New(fault.Invalid, "a gossip key is 16, 24 or 32 bytes in base64; this one is not base64")
	}
	if memberlist.ValidateKey(raw) != nil {
		return nil, fault.New(fault.Invalid, "a gossip key is 16, 24 or 32 bytes in base64; this one has %d bytes", len(raw))
	}
	return raw, nil
}

// keys loads the key ring from its file, or begins one with the configured key.
func (m *Members) keys(conf *serf.Config, path string) error {
	ring, err := readRing(path)
	if err != nil {
		return err
	}
	if m.conf.Encrypt != "" {
		first, err := decodeKey(m.conf.Encrypt)
		if err != nil {
			return fmt.Errorf("server.encrypt: %w", err)
		}
		switch {
		case len(ring) == 0:
			ring = [][]byte{first}
			if err := writeRing(path, m.conf.Encrypt); err != nil {
				return err
			}
		case !slices.ContainsFunc(ring, func(k []byte) bool { return string(k) == string(first) }):
			m.log.Warn("server.encrypt is not in the key ring on disk, which is used instead", "file", path)
		}
	}
	if len(ring) == 0 {
		return nil
	}
	if conf.MemberlistConfig.Keyring, err = memberlist.NewKeyring(ring, ring[0]); err != nil {
		return fmt.Errorf("gossip key ring: %w", err)
	}
	conf.KeyringFile = path
	return nil
}

func readRing(path string) ([][]byte, error) {
	if path == "" {
		return nil, nil
	}
	body, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("gossip key ring: %w", err)
	}
	var keys []string
	if err := json.Unmarshal(body, &keys); err != nil {
		return nil, fault.New(fault.Invalid, "gossip key ring %s is not a list of keys: %w", path, err)
	}
	var ring [][]byte
	for i, k := range keys {
		raw, err := decodeKey(k)
		if err != nil {
			return nil, fmt.Errorf("gossip key ring %s, key %d: %w", path, i+1, err)
		}
		ring = append(ring, raw)
	}
	return ring, os.Chmod(path, 0o600)
}

func writeRing(path, key string) error {
	if path == "" {
		return nil
	}
	body, err := json.Marshal([]string{key})
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, append(body, '\n'), 0o600); err != nil {
		return fmt.Errorf("gossip key ring: %w", err)
	}
	return nil
}

// Keyring lists or changes the keys of all servers.
func (m *Members) Keyring(op api.KeyringOp, key string) (*api.KeyringResponse, error) {
	if m.pool == nil || !m.pool.EncryptionEnabled() {
		return nil, fault.New(fault.Invalid, "gossip is not encrypted: set server { encrypt = \"...\" }")
	}
	ring := m.pool.KeyManager()
	actions := map[api.KeyringOp]func(string) (*serf.KeyResponse, error){
		api.KeyringList:    func(string) (*serf.KeyResponse, error) { return ring.ListKeys() },
		api.KeyringInstall: ring.InstallKey, api.KeyringUse: ring.UseKey, api.KeyringRemove: ring.RemoveKey,
	}
	action := actions[op]
	if action == nil {
		return nil, fault.New(fault.Invalid, "%q is no operation of a key ring", op)
	}
	if op != api.KeyringList {
		if err := CheckKey(key); err != nil {
			return nil, err
		}
	}
	got, err := action(key)
	if got == nil {
		return nil, fmt.Errorf("key ring: %s: %w", op, err)
	}
	out := &api.KeyringResponse{Messages: got.Messages, Keys: got.Keys, NumNodes: got.NumNodes}
	if err != nil {
		return out, fault.New(fault.Unavailable, "key ring: %s: %w: %v", op, err, got.Messages)
	}
	return out, nil
}
