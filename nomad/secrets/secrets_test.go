package secrets_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/secrets"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// keys is a keyring whose keys follow from their ids.
type keys struct {
	active  string
	removed string
}

func (k *keys) DataKey(context.Context) (string, []byte, error) {
	key, err := k.DataKeyOf(k.active)
	return k.active, key, err
}

func (k *keys) DataKeyOf(id string) ([]byte, error) {
	if id == k.removed {
		return nil, fault.New(fault.Internal, "root key %s was removed", id)
	}
	return []byte(strings.Repeat(id, 16)), nil
}

type set = map[string]string

func boxOf(k *keys, items set) *secrets.Box {
	return secrets.New(secrets.Config{Keys: k, Variable: func(namespace, path string) (map[string]string, error) {
		if namespace != "team" || path != "nomad/jobs/csi" {
			return nil, nil
		}
		return items, nil
	}})
}

func sealed(t *testing.T, b *secrets.Box, plain set, known ...set) set {
	t.Helper()
	out, err := b.Seal(t.Context(), plain, known...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func opened(t *testing.T, b *secrets.Box, s set) set {
	t.Helper()
	out, err := b.Open("volume \"v\"", s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSealedSecretsOpen(t *testing.T) {
	b := boxOf(&keys{active: "k1"}, nil)
	plain := set{"user": "admin", "password": "hunter2hunter2", "empty": ""}
	once := sealed(t, b, plain)
	if again := sealed(t, b, plain); !maps.Equal(once, again) {
		t.Errorf("the same secrets are sealed as\n%v\nand\n%v", once, again)
	}
	if got := opened(t, b, once); !maps.Equal(got, plain) {
		t.Errorf("opened: %v", got)
	}
	for name, value := range once {
		if plain[name] != "" && strings.Contains(value, plain[name]) || !strings.HasPrefix(value, "sealed.k1.") {
			t.Errorf("%s is stored as %q", name, value)
		}
	}
	// A value that looks like a sealed one is a value like any other.
	trick := set{"user": once["password"]}
	if got := opened(t, b, sealed(t, b, trick)); !maps.Equal(got, trick) {
		t.Errorf("a value that looks sealed opens as %v", got)
	}
	for what, wrong := range map[string]set{
		"another name":   {"user": once["password"]},
		"plain":          {"password": "hunter2hunter2"},
		"a changed text": {"password": once["password"][:len(once["password"])-4] + "AAAA"},
		"a short text":   {"password": "sealed.k1.AAAA"},
		"no base64":      {"password": "sealed.k1.!"},
		"another key":    {"password": strings.Replace(once["password"], "k1", "k2", 1)},
	} {
		if got, err := b.Open(`volume "v"`, wrong); err == nil || !strings.Contains(err.Error(), `of volume "v" cannot be read: register the volume again`) {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	if _, err := b.Seal(t.Context(), set{"": "team/nomad/jobs/csi"}); !errors.Is(err, fault.Invalid) {
		t.Errorf("a user refers to a variable: %v", err)
	}
}

func TestReferencesAreReadForEachCall(t *testing.T) {
	items := set{"user": "admin", "password": "one"}
	b := boxOf(&keys{active: "k1"}, items)
	reference := secrets.Reference("team", "nomad/jobs/csi")
	items["password"] = "two"
	if got := opened(t, b, reference); !maps.Equal(got, items) {
		t.Errorf("opened: %v", got)
	}
	over := sealed(t, b, set{"password": "of the request"})
	maps.Copy(over, reference)
	if got := opened(t, b, over); !maps.Equal(got, set{"user": "admin", "password": "of the request"}) {
		t.Errorf("with a secret of the request: %v", got)
	}
	clear(items)
	_, err := b.Open(`volume "v"`, reference)
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), `secrets of volume "v" are those of variable "nomad/jobs/csi" in namespace "team"`) ||
		!strings.Contains(err.Error(), "`nomad var put -namespace team nomad/jobs/csi KEY=VALUE`") {
		t.Errorf("without the variable: %v", err)
	}
	if got := opened(t, b, over); !maps.Equal(got, set{"password": "of the request"}) {
		t.Errorf("a request with all secrets, without the variable: %v", got)
	}
}

// A rotation changes what seals the secrets, and nothing else. A key goes when it seals nothing more.
func TestARotationSealsEverythingAgain(t *testing.T) {
	k := &keys{active: "k1"}
	b := boxOf(k, nil)
	of := func(value string) set { return sealed(t, b, set{"key": value}) }
	s := state.New()
	tx := s.Write(1, time.Unix(1000, 0))
	tx.PutRootKey(&api.RootKey{RootKeyMeta: api.RootKeyMeta{KeyID: "k1", State: api.RootKeyInactive}})
	tx.PutRootKey(&api.RootKey{RootKeyMeta: api.RootKeyMeta{KeyID: "k2", State: api.RootKeyActive}})
	tx.PutVolume(&api.Volume{
		VolumeSpec: api.VolumeSpec{ID: "v", Namespace: "default", PluginID: "p", Secrets: of("0")},
		Provision: api.VolumeProvision{
			IntentSecrets: of("1"), FormerSecrets: of("2"), Replaces: &api.VolumeSpec{Secrets: of("3")},
		},
	})
	tx.PutVolume(&api.Volume{VolumeSpec: api.VolumeSpec{ID: "w", Namespace: "default", PluginID: "p", Secrets: secrets.Reference("team", "nomad/jobs/csi")}})
	tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "x", NodeID: "n1", State: api.AttachmentPublished, Secrets: of("4")})
	tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "x", NodeID: "n2", State: api.AttachmentWrittenOff, Secrets: of("5")})
	tx.PutSnapshotIntent(&api.SnapshotIntent{PluginID: "p", Name: "s", Secrets: of("6")})
	token := &api.ACLToken{AccessorID: "a", SecretID: "secret of a"}
	stored, err := b.SealToken(t.Context(), token)
	if err != nil || stored.SecretID == token.SecretID || stored.SecretHash == "" {
		t.Fatalf("sealed token: %+v, %v", stored, err)
	}
	tx.PutACLToken(stored)
	lost := sealed(t, boxOf(&keys{active: "k0"}, nil), set{"key": "lost"})
	tx.PutVolume(&api.Volume{VolumeSpec: api.VolumeSpec{ID: "lost", Namespace: "default", PluginID: "p", Secrets: lost}})
	tx.Commit()
	old := s.Read().Volume("default", "v").Secrets
	k.active, k.removed = "k2", "k0"
	if again := sealed(t, b, set{"key": "0"}, old); !maps.Equal(again, old) {
		t.Error("the same secret counts as another one after the rotation")
	}
	if n := secrets.Used(s.Read(), "k1"); n != 8 {
		t.Errorf("%d values are sealed with the old key, not 8", n)
	}
	rounds := 0
	for ; ; rounds++ {
		values, err := b.Older(t.Context(), s.Read(), 3)
		if len(values) == 0 {
			if err == nil || !strings.Contains(err.Error(), "k0 was removed") {
				t.Errorf("the value without its key: %v", err)
			}
			break
		}
		tx := s.Write(s.Read().Index()+1, time.Unix(1000, 0))
		secrets.Replace(tx, map[string]string{old["key"]: "sealed.k9.AAAA"}) // of a key that is not there
		secrets.Replace(tx, values)
		tx.Commit()
	}
	now := s.Read()
	if n := secrets.Used(now, "k1"); n != 0 || rounds != 3 {
		t.Errorf("%d values are sealed with the old key after %d rounds", n, rounds)
	}
	k.removed = "k1"
	v := now.Volume("default", "v")
	for n, got := range []set{
		v.Secrets, v.Provision.IntentSecrets, v.Provision.FormerSecrets, v.Provision.Replaces.Secrets, now.Attachment("p", "x", "n1").Secrets,
		now.WrittenOffTo("p", "x", "n2").Secrets, now.SnapshotIntent("p", "s", false).Secrets,
	} {
		if plain := opened(t, b, got); plain["key"] != string(rune('0'+n)) {
			t.Errorf("secret %d is %q", n, plain["key"])
		}
	}
	if by := now.ACLTokenBySecret(token.SecretID); by == nil {
		t.Error("the token is not found by its secret")
	} else if shown, err := b.OpenToken(by); err != nil || shown.SecretID != token.SecretID || shown.SecretHash != "" {
		t.Errorf("the token is %+v, %v", shown, err)
	}
	other := *token
	other.AccessorID, other.SecretHash, other.SecretID = "other", "hash", now.ACLTokenBySecret(token.SecretID).SecretID
	if _, err := b.OpenToken(&other); fault.Of(err) != fault.Unavailable || !strings.Contains(err.Error(), "token other") {
		t.Errorf("the sealed secret opens for another token: %v", err)
	}
	if !maps.Equal(now.Volume("default", "w").Secrets, secrets.Reference("team", "nomad/jobs/csi")) || !maps.Equal(now.Volume("default", "lost").Secrets, lost) {
		t.Error("a rotation changes a reference, or what it cannot open")
	}
}

func BenchmarkVolumeSecretOpen(b *testing.B) {
	box := boxOf(&keys{active: "k1"}, nil)
	s, err := box.Seal(b.Context(), set{"key": "hunter2hunter2"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := box.Open("v", s); err != nil {
			b.Fatal(err)
		}
	}
}
