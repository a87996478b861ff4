package api

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
