package volume

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
)

// readSpec reads a volume file, HCL or JSON; "-" is stdin. A namespace that was asked for wins
// over that of the file.
func readSpec(s *session.Session) (*api.VolumeSpec, error) {
	name, text, err := s.Source(s.Arg(0))
	if err != nil {
		return nil, session.Failed("reading volume file", err)
	}
	v, err := parse(name, text)
	if err != nil {
		return nil, session.Failed("parsing volume file", err)
	}
	if s.IsSet("namespace") || v.Namespace == "" {
		v.Namespace = s.Namespace()
	}
	return v, nil
}

func parse(_ string, _ []byte) (*api.VolumeSpec, error) {
	return nil, fault.New(fault.Unimplemented, "volume files are not parsed yet")
}
