package api

import (
	"crypto/sha256"
	"encoding/hex"
)

// Redacted returns a copy without the secret.
func (n *Node) Redacted() *Node {
	c := *n
	c.SecretID = ""
	return &c
}

// Redacted returns a copy without secrets and mount flags.
func (v *VolumeSpec) Redacted() *VolumeSpec {
	c := *v
	c.Secrets = nil
	c.MountOptions = v.MountOptions.Redacted()
	return &c
}

// Redacted returns a copy without secrets and mount flags, also those of the operations on it.
func (v *Volume) Redacted() *Volume {
	c := *v
	c.VolumeSpec = *v.VolumeSpec.Redacted()
	c.Provision.IntentSecrets, c.Provision.FormerSecrets = nil, nil
	if r := v.Provision.Replaces; r != nil {
		c.Provision.Replaces = r.Redacted()
	}
	return &c
}

// Redacted returns a copy with the flags replaced, or nil for nil.
func (m *MountOptions) Redacted() *MountOptions {
	if m == nil {
		return nil
	}
	c := *m
	if len(c.MountFlags) > 0 {
		c.MountFlags = []string{"[REDACTED]"}
	}
	return &c
}

// Redacted returns a copy without secrets, context and mount flags.
func (a *VolumeAttachment) Redacted() *VolumeAttachment {
	c := *a
	c.Secrets, c.PublishContext = nil, nil
	c.MountOptions = a.MountOptions.Redacted()
	return &c
}

// Redacted returns a copy without the secret.
func (t *ACLToken) Redacted() *ACLToken {
	c := *t
	c.SecretID = ""
	return &c
}

// Redacted returns a copy with a hash in place of the secret, which is the key of the token.
func (t *OneTimeToken) Redacted() *OneTimeToken {
	c := *t
	sum := sha256.Sum256([]byte(t.OneTimeSecretID))
	c.OneTimeSecretID = hex.EncodeToString(sum[:])
	return &c
}

// Redacted returns a copy without the secret and the private key that authenticate this cluster at an identity provider.
func (m *ACLAuthMethod) Redacted() *ACLAuthMethod {
	c := *m
	if m.Config != nil {
		config := *m.Config
		config.OIDCClientSecret, config.OIDCClientAssertion = "", config.OIDCClientAssertion.Redacted()
		c.Config = &config
	}
	return &c
}

// Redacted returns a copy without the private key, or nil for nil.
func (a *OIDCClientAssertion) Redacted() *OIDCClientAssertion {
	if a == nil || a.PrivateKey == nil {
		return a
	}
	c, key := *a, *a.PrivateKey
	key.PemKey, c.PrivateKey = "", &key
	return &c
}
