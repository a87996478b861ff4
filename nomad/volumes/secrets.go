package volumes

import (
	"context"
	"errors"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/mask"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// masked hides, in the errors of a request, the values of the secrets that came with it and of the volumes that
// it names: drivers quote what they were given.
func masked[Req, Resp any](s *Service, do func(context.Context, *Req) (*Resp, error)) func(context.Context, *Req) (*Resp, error) {
	return func(ctx context.Context, r *Req) (*Resp, error) {
		secrets := s.secretsOf(r) // a volume that is deleted meanwhile has none later
		resp, err := do(ctx, r)
		if err == nil {
			return resp, nil
		}
		text := mask.Text(err.Error(), append(secrets, s.secretsOf(r)...)...)
		if text == err.Error() {
			return resp, err
		}
		return resp, fault.Wrap(fault.Of(err), errors.New(text))
	}
}

func (s *Service) secretsOf(req any) (all []map[string]string) {
	switch r := req.(type) {
	case *api.VolumeRegisterRequest:
		all = s.specSecrets(r.Volumes, r.Namespace)
	case *api.VolumeCreateRequest:
		all = s.specSecrets(r.Volumes, r.Namespace)
	case *api.VolumeDeleteRequest:
		all = append(s.volumeSecrets(r.Namespace, r.VolumeID), r.Secrets)
	case *api.VolumeDetachRequest:
		all = s.volumeSecrets(r.Namespace, r.VolumeID)
	case *api.SnapshotCreateRequest:
		for _, c := range r.Snapshots {
			if c != nil {
				all = append(append(all, c.Secrets), s.volumeSecrets(r.Namespace, c.SourceVolumeID)...)
			}
		}
	case *api.SnapshotDeleteRequest:
		all = append(all, r.Secrets)
		if i := s.state.Read().SnapshotIntent(r.PluginID, r.ID, false); i != nil {
			all = append(append(all, i.Secrets), s.volumeSecrets(i.Namespace, i.VolumeID)...)
		}
	case *api.SnapshotListRequest:
		all = append(all, r.Secrets)
	}
	return all
}

func (s *Service) specSecrets(specs []*api.VolumeSpec, ns string) (all []map[string]string) {
	for _, v := range specs {
		if v == nil {
			continue
		}
		if v.Namespace != "" {
			ns = v.Namespace
		}
		all = append(append(all, v.Secrets), s.volumeSecrets(ns, v.ID)...)
	}
	return all
}

// claimSecrets returns those that the driver was called with for a claim, also when its volume was removed.
func (s *Service) claimSecrets(h ledger.Hold) []map[string]string {
	tx := s.state.Read()
	c := tx.Claim(h.Namespace, h.VolumeID, h.AllocID, h.Use)
	if c == nil {
		return nil
	}
	if a := tx.Attachment(c.PluginID, c.ExternalID, c.NodeID); a != nil {
		return ledger.Secrets(tx, a)
	}
	return nil
}

func (s *Service) volumeSecrets(ns, id string) []map[string]string {
	v := s.state.Read().Volume(namespaceOf(ns), id)
	if v == nil {
		return nil
	}
	return []map[string]string{v.Secrets, v.Provision.FormerSecrets, v.Provision.IntentSecrets}
}
