package keyring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Config is what the package needs.
type Config struct {
	Log   hclog.Logger
	State *state.Store
	Raft  fsm.Proposer
	// Dir is the keystore; empty keeps it in memory.
	Dir string
	// Servers lists the RPC addresses of the living servers, Address is that of this one, and Peer the way to another.
	Servers func() []string
	Address string
	Peer    func(address string) (wire.Caller, error)
	// Voters lists the servers whose majority must have a key before it encrypts data; nil is this server alone.
	Voters func() (*api.Voters, bool, error)
	Limits Limits
	// Providers are the external services that encrypt wrapping keys. NoFiles writes no key files.
	Providers []Provider
	NoFiles   bool
	// Patience is how long a leader looks for the wrapping key of the active key before it considers a new one; 0 is 30 seconds.
	Patience time.Duration
}

// Service keeps the root keys.
type Service struct {
	Config
	store *keystore
	mu    sync.Mutex
	// secrets are the decrypted keys by id, spread those that a majority has, and failed the reasons why others were not decrypted.
	secrets map[string]*Secret
	spread  map[string]bool
	failed  map[string]error
}

// New makes the service.
func New(c Config) *Service {
	c.Patience = cmp.Or(c.Patience, patience)
	c.Limits = Limits{
		Interval: cmp.Or(c.Limits.Interval, 10*time.Minute), Unused: cmp.Or(c.Limits.Unused, time.Hour),
		Rotation: cmp.Or(c.Limits.Rotation, 720*time.Hour),
	}
	return &Service{
		Config: c, store: newKeystore(c.Dir, c.NoFiles), secrets: map[string]*Secret{}, spread: map[string]bool{}, failed: map[string]error{},
	}
}

var table = []state.Key{state.TableKey(state.TableRootKeys)}

// Handlers binds the service's methods.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{
		wire.KeyringList.Handle(s.List),
		wire.KeyringPublic.Handle(s.Public),
		wire.KeyringRotate.Handle(s.Rotate),
		wire.KeyringDelete.Handle(s.Delete),
		wire.KeyringUnlock.Handle(s.Unlock),
	}
}

// List lists the root keys, the oldest first.
func (s *Service) List(ctx context.Context, q *api.QueryOptions) (*api.RootKeyListResponse, error) {
	out := &api.RootKeyListResponse{}
	keys := []state.Key{state.TableKey(state.TableRootKeys), state.TableKey(state.TableVariables), state.TableKey(state.TableVolumes)} // rekeying ends with a change of data
	err := rpc.Block(ctx, s.State, q, &out.QueryMeta, keys, func(tx *state.Txn) error {
		out.Keys = nil
		for _, k := range ordered(tx) {
			out.Keys = append(out.Keys, shown(tx, k))
		}
		return nil
	})
	return out, err
}

// Public lists the public halves of all root keys.
func (s *Service) Public(ctx context.Context, q *api.QueryOptions) (*api.JSONWebKeysResponse, error) {
	out := &api.JSONWebKeysResponse{}
	err := rpc.Block(ctx, s.State, q, &out.QueryMeta, table, func(tx *state.Txn) error {
		out.Keys = nil
		for _, k := range ordered(tx) {
			keys, err := webKeys(k)
			if err != nil {
				return err
			}
			out.Keys = append(out.Keys, keys...)
		}
		return nil
	})
	return out, err
}

func ordered(tx *state.Txn) []*api.RootKey {
	keys := slices.Collect(tx.RootKeys())
	slices.SortStableFunc(keys, func(a, b *api.RootKey) int { return cmp.Compare(a.CreateIndex, b.CreateIndex) })
	return keys
}

// Rotate makes a new key that is active immediately or, with a publish time, at that time. What the older ones signed stays valid.
// Every rotation is a full one: all data is encrypted with the new key in the background.
func (s *Service) Rotate(ctx context.Context, r *api.RootKeyRotateRequest) (*api.RootKeyRotateResponse, error) {
	switch {
	case r.Algorithm != "" && r.Algorithm != api.EncryptionAES256GCM:
		return nil, fault.New(fault.Invalid, "algorithm %q is not known: want %s", r.Algorithm, api.EncryptionAES256GCM)
	case r.PublishTime < 0:
		return nil, fault.New(fault.Invalid, "publish_time %d is negative: want Unix nanoseconds, or 0 for a key that is active immediately", r.PublishTime)
	}
	return s.rotate(ctx, r.PublishTime)
}

// rotate makes a new key that becomes active at a time, which is 0 or past for immediately. Its wrapping key is on this server's
// disk, or encrypted by external services, before the key is in the log.
func (s *Service) rotate(ctx context.Context, at int64) (*api.RootKeyRotateResponse, error) {
	key, wrapping, err := newKey(time.Now())
	if err != nil {
		return nil, err
	}
	if err := s.encrypt(ctx, key, wrapping); err != nil {
		return nil, err
	}
	add := &AddKey{Key: key}
	if at > time.Now().UnixNano() {
		key.State, key.PublishTime = api.RootKeyPrepublished, at
	} else if old := s.State.Read().ActiveRootKey(); old != nil {
		add.Replaces = old.KeyID
	}
	if err := s.store.put(key.KeyID, wrapping); err != nil {
		return nil, err
	}
	res, err := s.Raft.Propose(ctx, add)
	if err != nil {
		if errors.Is(err, fault.Conflict) {
			err = errors.Join(err, s.store.drop(key.KeyID))
		}
		return nil, fmt.Errorf("add a root key: %w", err)
	}
	s.Log.Info("a root key was made", "key", key.KeyID, "state", key.State)
	meta := key.RootKeyMeta // without indexes: clients use the indexes of a response as MinIndex
	return &api.RootKeyRotateResponse{Key: &meta, WriteMeta: api.WriteMeta{Index: res.Index}}, nil
}

// Delete forgets a key that is not active.
func (s *Service) Delete(ctx context.Context, r *api.RootKeyDeleteRequest) (*api.WriteMeta, error) {
	res, err := s.Raft.Propose(ctx, &DeleteKey{KeyID: r.KeyID, Force: r.Force})
	if err != nil {
		return nil, fmt.Errorf("delete root key: %w", err)
	}
	return &api.WriteMeta{Index: res.Index}, nil
}

// Unlock returns a wrapping key to another server.
func (s *Service) Unlock(_ context.Context, r *api.RootKeyUnlockRequest) (*api.RootKeyUnlockResponse, error) {
	wrapping, err := s.store.get(r.KeyID)
	if err != nil {
		return nil, fmt.Errorf("wrapping key of root key %q: %w", r.KeyID, err)
	}
	return &api.RootKeyUnlockResponse{Unlock: wrapping}, nil
}

// Active is the secret half of the active key.
func (s *Service) Active() (*Secret, error) {
	key := s.State.Read().ActiveRootKey()
	if key == nil {
		return nil, fault.New(fault.Unavailable, "the cluster has no root key yet")
	}
	return s.secret(key)
}

func (s *Service) secret(key *api.RootKey) (*Secret, error) {
	s.mu.Lock()
	known := s.secrets[key.KeyID]
	s.mu.Unlock()
	if known != nil {
		return known, nil
	}
	var secret *Secret
	wrapping, err := s.store.get(key.KeyID)
	if err == nil {
		secret, err = open(key, wrapping)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		next := "restore the key file from a backup, or start a server that has it"
		if len(key.External) > 0 {
			next = "restore access to the external service, or start a server that has it"
		}
		return nil, fault.New(fault.Unavailable, "this server cannot decrypt root key %s: %s; %s", key.KeyID, reasons(err, s.failed[key.KeyID]), next)
	}
	s.secrets[key.KeyID] = secret
	return secret, nil
}

// reasons joins what failed in one line.
func reasons(all ...error) string {
	var texts []string
	for _, err := range all {
		if err != nil {
			texts = append(texts, strings.ReplaceAll(err.Error(), "\n", ", "))
		}
	}
	return strings.Join(texts, ", ")
}

// Health is the reason why this server cannot sign, or cannot decrypt data that it stores; nil when it can. Callers without rights see
// it, so the log has the details.
func (s *Service) Health() error {
	tx := s.State.Read()
	for k := range tx.RootKeys() {
		if k.State == api.RootKeyActive || shown(tx, k).State == api.RootKeyRekeying {
			if _, err := s.secret(k); err != nil {
				return fault.New(fault.Unavailable, "this server cannot decrypt root key %s: its log has the cause and the next step", k.KeyID)
			}
		}
	}
	return nil
}

// drop forgets a deleted key.
func (s *Service) drop(id string) error {
	s.mu.Lock()
	delete(s.secrets, id)
	delete(s.spread, id)
	delete(s.failed, id)
	s.mu.Unlock()
	return s.store.drop(id)
}
