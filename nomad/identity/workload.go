package identity

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// signMax limits the identities of one request: an RS256 signature takes more than a millisecond.
const signMax = 1000

// Handlers binds the methods of the service.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{wire.AllocSignIdentities.Handle(s.SignIdentities), wire.KeyringDiscovery.Handle(s.Discovery)}
}

// SignIdentities signs identities of allocations of the node that requests them. The RPC layer has checked the secret of the
// node.
func (s *Service) SignIdentities(ctx context.Context, r *api.AllocSignIdentitiesRequest) (*api.AllocSignIdentitiesResponse, error) {
	if len(r.Identities) > signMax {
		return nil, fault.New(fault.Invalid, "the request has %d identities; at most %d are allowed: make several requests", len(r.Identities), signMax)
	}
	tx := s.State.Read()
	out := &api.AllocSignIdentitiesResponse{}
	for _, name := range r.Identities {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if name == nil {
			name = &api.IdentityName{}
		}
		signed := &api.SignedIdentity{IdentityName: *name}
		if err := s.signWorkload(ctx, tx, r.NodeID, signed); err != nil {
			signed.Error = err.Error()
			if errors.Is(err, fault.Unavailable) {
				return nil, err // no key: none can be signed, and the node tries again
			}
		}
		out.Signed = append(out.Signed, signed)
	}
	out.Index = tx.Index()
	return out, nil
}

func (s *Service) signWorkload(ctx context.Context, tx *state.Txn, nodeID string, signed *api.SignedIdentity) error {
	name := &signed.IdentityName
	a := tx.Alloc(name.AllocID)
	switch {
	case a == nil || a.NodeID != nodeID || a.Job == nil:
		return fault.New(fault.NotFound, "allocation %q not found on this node", name.AllocID)
	case a.ClientTerminal():
		return fault.New(fault.Invalid, "allocation %q has ended: its tasks get no identities", name.AllocID)
	}
	wanted, workload := find(a, name)
	if wanted == nil {
		return fault.New(fault.NotFound, "job %q has no identity %q of task %q, service %q", a.JobID, name.Identity, name.Task, name.Service)
	}
	job := JobOf(a.Job)
	c := &Claims{
		Subject:  strings.Join([]string{s.Region, a.Namespace, job, a.TaskGroup, workload, wanted.Name}, ":"),
		Audience: wanted.Audience, TTL: wanted.TTL,
		Namespace: a.Namespace, JobID: job, AllocationID: a.ID, Task: name.Task, Service: name.Service,
		Extra: extraClaims(tx, s.Region, a, name.Task, wanted.ExtraClaims),
	}
	algorithm := RS256 // third parties expect it
	if wanted.Name == api.IdentityDefaultName && name.Service == "" {
		algorithm = EdDSA
	}
	if slices.ContainsFunc(c.Audience, ForServers) {
		return fault.New(fault.Invalid, "identity %q has an audience that is reserved for nodes", wanted.Name)
	}
	token, _, err := s.Sign(ctx, c, algorithm)
	if err == nil {
		signed.JWT, signed.Expiration = token, c.Expires()
	}
	return err
}

// ForServers reports whether workloads may not have an audience.
func ForServers(audience string) bool {
	return audience == AudienceNode || audience == AudienceIntroduction
}

// JobOf returns the id of the job that identities name: jobs that another job launched have that of the other one.
func JobOf(j *api.Job) string { return cmp.Or(j.ParentID, j.ID) }

// find returns an identity of the job of an allocation and the name of the workload that has it.
func find(a *api.Allocation, name *api.IdentityName) (id *api.WorkloadIdentity, workload string) {
	g := a.Group()
	if g == nil {
		return nil, ""
	}
	services := g.Services
	if name.Task != "" {
		t := g.Task(name.Task)
		if t == nil {
			return nil, ""
		}
		if name.Service == "" {
			all := append(slices.Clone(t.Identities), t.Identity)
			return named(all, name.Identity), t.Name
		}
		services = t.Services
	}
	for _, s := range services {
		if name.Service != "" && s.Name == name.Service {
			return named([]*api.WorkloadIdentity{s.Identity}, name.Identity), s.Name
		}
	}
	return nil, ""
}

func named(all []*api.WorkloadIdentity, name string) *api.WorkloadIdentity {
	i := slices.IndexFunc(all, func(id *api.WorkloadIdentity) bool { return id != nil && id.Name == name })
	if i < 0 {
		return nil
	}
	return all[i]
}

// Discovery returns the discovery document of the cluster as an identity provider.
func (s *Service) Discovery(context.Context, *api.QueryOptions) (*api.OIDCDiscoveryResponse, error) {
	out := &api.OIDCDiscoveryResponse{}
	out.Index = 1
	if s.Issuer != "" {
		out.OIDCDiscovery = &api.OIDCDiscovery{
			Issuer: s.Issuer, JWKS: strings.TrimSuffix(s.Issuer, "/") + "/.well-known/jwks.json",
			IDTokenAlgs: []string{string(RS256), string(EdDSA)}, ResponseTypes: []string{"code"}, Subjects: []string{"public"},
		}
	}
	return out, nil
}
