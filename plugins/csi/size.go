package csi

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Limits of the specification, in bytes.
const (
	stringMax = 128
	nodeIDMax = 256
	mapMax    = 4 << 10
	pathMax   = 4 << 10
)

func checkName(what, s string) error {
	if s == "" {
		return fault.New(fault.Invalid, "%s is missing", what)
	}
	if len(s) > stringMax {
		return fault.New(fault.Invalid, "%s has %d bytes and CSI allows %d", what, len(s), stringMax)
	}
	for _, r := range s {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r >= 0x7f && r <= 0x9f {
			return fault.New(fault.Invalid, "%s has a control character", what)
		}
	}
	return nil
}

// checkID wants an id. Ids are the plugin's own, and many plugins make them longer than they may.
func checkID(what, s string) error {
	if s == "" {
		return fault.New(fault.Invalid, "%s is missing", what)
	}
	if len(s) > mapMax {
		return fault.New(fault.Invalid, "%s has %d bytes", what, len(s))
	}
	return nil
}

func checkNodeID(s string) error {
	if s == "" {
		return fault.New(fault.Invalid, "node id is missing")
	}
	if len(s) > nodeIDMax {
		return fault.New(fault.Invalid, "node id has %d bytes and CSI allows %d", len(s), nodeIDMax)
	}
	return nil
}

func checkPath(what, s string) error {
	if s == "" {
		return fault.New(fault.Invalid, "%s is missing", what)
	}
	if len(s) >= pathMax {
		return fault.New(fault.Invalid, "%s has %d bytes", what, len(s))
	}
	return nil
}

// checkMap measures a map of the user. Its content is not told, for it may be secret.
func checkMap(what string, m map[string]string) error {
	n := 0
	for k, v := range m {
		n += len(k) + len(v)
	}
	if n > mapMax {
		return fault.New(fault.Invalid, "%s have %d bytes and CSI allows %d", what, n, mapMax)
	}
	return nil
}

func checkOptions(o *api.MountOptions) error {
	if o == nil {
		return nil
	}
	n := 0
	for _, f := range o.MountFlags {
		n += len(f)
	}
	if n > mapMax {
		return fault.New(fault.Invalid, "mount flags have %d bytes and CSI allows %d", n, mapMax)
	}
	if len(o.FSType) > stringMax {
		return fault.New(fault.Invalid, "file system type has %d bytes and CSI allows %d", len(o.FSType), stringMax)
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
