package volume

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/jobspec/volumespec"
)

// readSpec reads a volume file, HCL or JSON, of a CSI or of a host volume; "-" is stdin. A namespace or an id that was asked
// for wins over that of the file.
func readSpec(s *session.Session) (*api.VolumeSpec, *api.HostVolume, error) {
	name, text, err := s.Source(s.Arg(0))
	if err != nil {
		return nil, nil, session.Failed("reading volume file", err)
	}
	if host, err := readHost(s, name, text); host != nil || err != nil {
		return nil, host, err
	}
	v, err := volumespec.Parse(name, text)
	if err != nil {
		return nil, nil, session.Failed("parsing volume file", err)
	}
	if id := s.String("id"); id != "" {
		v.ID = id
	}
	if v.ID == "" {
		return nil, nil, fault.New(fault.Invalid, "volume file %s has no id: write id = \"...\" there or use -id", name)
	}
	if s.IsSet("namespace") || v.Namespace == "" {
		v.Namespace = s.Namespace()
	}
	return v, nil, nil
}
