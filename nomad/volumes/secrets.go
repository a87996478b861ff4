package volumes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/mask"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/secrets"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// masked hides, in the errors of a request, the values of the secrets that came with it and of the volumes that
// it names: drivers quote what they were given.
func masked[Req, Resp any](s *Service, do func(context.Context, *Req) (*Resp, error)) func(context.Context, *Req) (*Resp, error) {
	return func(ctx context.Context, r *Req) (*Resp, error) {
		given, stored := s.secretsOf(r) // a volume that is deleted meanwhile has none later
		resp, err := do(ctx, r)
		if err == nil {
			return resp, nil
		}
		_, now := s.secretsOf(r)
		text := mask.Text(err.Error(), append(given, s.secrets.Plain(append(stored, now...)...)...)...)
		if text == err.Error() {
			return resp, err
		}
		return resp, fault.Wrap(fault.Of(err), errors.New(text))
	}
}

// secretsOf returns the secrets that a request brings, and those that are stored for what it names.
func (s *Service) secretsOf(req any) (given, stored []map[string]string) {
	switch r := req.(type) {
	case *api.VolumeRegisterRequest:
		return s.specSecrets(r.Volumes, r.Namespace)
	case *api.VolumeCreateRequest:
		return s.specSecrets(r.Volumes, r.Namespace)
	case *api.VolumeDeleteRequest:
		return []map[string]string{r.Secrets}, s.volumeSecrets(r.Namespace, r.VolumeID)
	case *api.VolumeDetachRequest:
		return nil, s.volumeSecrets(r.Namespace, r.VolumeID)
	case *api.VolumeRepairRequest:
		return nil, s.volumeSecrets(r.Namespace, r.ID)
	case *api.SnapshotCreateRequest:
		for _, c := range r.Snapshots {
			if c != nil {
				given, stored = append(given, c.Secrets), append(stored, s.volumeSecrets(r.Namespace, c.SourceVolumeID)...)
			}
		}
	case *api.SnapshotDeleteRequest:
		given = append(given, r.Secrets)
		if i := s.state.Read().SnapshotIntent(r.PluginID, r.ID, false); i != nil {
			stored = append(s.volumeSecrets(i.Namespace, i.VolumeID), i.Secrets)
		}
	case *api.SnapshotListRequest:
		given = append(given, r.Secrets)
	}
	return given, stored
}

func (s *Service) specSecrets(specs []*api.VolumeSpec, ns string) (given, stored []map[string]string) {
	for _, v := range specs {
		if v == nil {
			continue
		}
		if v.Namespace != "" {
			ns = v.Namespace
		}
		given, stored = append(given, v.Secrets), append(stored, s.volumeSecrets(ns, v.ID)...)
		if v.SecretsFrom != "" {
			stored = append(stored, secrets.Reference(namespaceOf(ns), v.SecretsFrom))
		}
	}
	return given, stored
}

// sealSpecs seals the secrets of specs before they are written. Who refers to a variable must be able to read it.
func (s *Service) sealSpecs(ctx context.Context, specs []*api.VolumeSpec) error {
	for _, spec := range specs {
		if spec.SecretsFrom != "" {
			if !access.Of(ctx).Rights.Variables(spec.Namespace, spec.SecretsFrom, "read") {
				return fault.New(fault.Denied, "volume %q: secrets_from needs the right to read variable %q in namespace %q: have a policy with it added to the token",
					spec.ID, spec.SecretsFrom, spec.Namespace)
			}
			spec.Secrets = secrets.Reference(spec.Namespace, spec.SecretsFrom)
			continue
		}
		sealed, err := s.secrets.Seal(ctx, spec.Secrets, s.volumeSecrets(spec.Namespace, spec.ID)...)
		if err != nil {
			return fmt.Errorf("volume %q: %w", spec.ID, err)
		}
		spec.Secrets = sealed
	}
	return nil
}

// opened is a volume as a node gets it: with the secrets for its calls, and no others.
func (s *Service) opened(v *api.Volume) (*api.Volume, error) {
	given, err := *v, error(nil)
	given.Provision.IntentSecrets, given.Provision.FormerSecrets, given.Provision.Replaces = nil, nil, nil
	given.Secrets, err = s.secrets.Open(fmt.Sprintf("volume %q", v.ID), v.Secrets)
	return &given, err
}

// errUnreadable marks that the secrets of a volume cannot be read: a node waits until they can be.
var errUnreadable = errors.New("the secrets cannot be read")

type unreadable struct{ error }

func (u unreadable) Unwrap() error        { return u.error }
func (u unreadable) Is(target error) bool { return target == errUnreadable }

const (
	// resealed bounds the values of one entry of the log.
	resealed = 64
	// resealAgain is the pause before older root keys are looked for again: of values that could not be opened, and of
	// those that were being written when the key was rotated.
	resealAgain = time.Minute
)

// Reseal seals the secrets of older root keys with the active one while this server leads.
func (s *Service) Reseal(ctx context.Context) error {
	for ctx.Err() == nil {
		w := s.state.Watch(state.TableKey(state.TableRootKeys))
		values, err := s.secrets.Older(ctx, s.state.Read(), resealed)
		if len(values) > 0 {
			_, err = s.write(ctx, &commands.Reseal{Values: values})
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("secrets of volumes or tokens stay sealed with an older root key", "error", err)
		}
		if err != nil || len(values) < resealed {
			pause := time.NewTimer(resealAgain)
			select {
			case <-w.C():
			case <-pause.C:
			case <-ctx.Done():
			}
			pause.Stop()
		}
		w.Stop()
	}
	return nil
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
