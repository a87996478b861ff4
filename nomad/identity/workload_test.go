package identity_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/identity"
)

// running is an allocation of a job that a periodic job launched.
func running() *api.Allocation {
	return &api.Allocation{
		ID: "a1", Namespace: "default", JobID: "web/periodic-1", Name: "web.g[0]", NodeID: "n1", TaskGroup: "g", ClientStatus: api.AllocClientStatusRunning,
		Job: &api.Job{
			ID: "web/periodic-1", ParentID: "web", Name: "web", Namespace: "default", NodePool: "default",
			TaskGroups: []*api.TaskGroup{{
				Name:     "g",
				Services: []*api.Service{{Name: "s", Identity: &api.WorkloadIdentity{Name: "consul", Audience: []string{"consul.io"}}}},
				Tasks: []*api.Task{{
					Name:     "t",
					Identity: &api.WorkloadIdentity{Name: "default", Audience: []string{identity.AudienceWorkload}},
					Identities: []*api.WorkloadIdentity{
						{Name: "aws", Audience: []string{"aws", "other"}, TTL: time.Hour, ExtraClaims: []string{"where", "withdrawn"}},
						{Name: "forged", Audience: []string{"x", identity.AudienceNode}},
						{Name: "huge", Audience: []string{strings.Repeat("x", 20<<10)}},
					},
				}},
			}},
		},
	}
}

func (c *cluster) put(t *testing.T, a *api.Allocation) {
	t.Helper()
	w := c.state.Write(c.state.Read().Index()+1, c.now)
	w.PutJob(a.Job)
	w.PutNode(&api.Node{ID: "n1", Name: "host-1", Datacenter: "dc1", NodePool: "default"})
	w.PutNamespace(&api.Namespace{
		Name:                "default",
		RequiredExtraClaims: map[string]string{"cluster": "prod-${job.region}", "empty": "${node.class}"},
		OptionalExtraClaims: map[string]string{"where": "${ node.name }/${node.datacenter}/${alloc.name}/${task.name}", "unused": "x"},
	})
	w.PutAlloc(a)
	w.Commit()
}

func TestIdentitiesOfABatch(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.put(t, running())
	other := running()
	other.ID, other.NodeID = "a2", "n2"
	c.put(t, other)
	ended := running()
	ended.ID, ended.ClientStatus = "a3", api.AllocClientStatusComplete
	c.put(t, ended)
	extra := map[string]string{"cluster": "prod-global", "empty": ""}
	withWhere := map[string]string{"cluster": "prod-global", "empty": "", "where": "host-1/dc1/web.g[0]/t"}
	cases := []struct {
		name api.IdentityName
		want *identity.Claims
		alg  string
		err  string
	}{
		{name: api.IdentityName{AllocID: "a1", Task: "t", Identity: "default"}, alg: "EdDSA", want: &identity.Claims{
			Subject: "global:default:web:g:t:default", Audience: []string{identity.AudienceWorkload}, Task: "t", Extra: extra,
		}},
		{name: api.IdentityName{AllocID: "a2", Task: "t", Identity: "default"}, err: "not found on this node"},
		{name: api.IdentityName{AllocID: "a1", Task: "t", Identity: "aws"}, alg: "RS256", want: &identity.Claims{
			Subject: "global:default:web:g:t:aws", Audience: []string{"aws", "other"}, Task: "t", Expiry: c.now.Add(time.Hour).Unix(), Extra: withWhere,
		}},
		{name: api.IdentityName{AllocID: "a1", Service: "s", Identity: "consul"}, alg: "RS256", want: &identity.Claims{
			Subject: "global:default:web:g:s:consul", Audience: []string{"consul.io"}, Service: "s", Extra: extra,
		}},
		{name: api.IdentityName{AllocID: "a3", Task: "t", Identity: "default"}, err: "has ended"},
		{name: api.IdentityName{AllocID: "a1", Task: "t", Identity: "none"}, err: `no identity "none"`},
		{name: api.IdentityName{AllocID: "a1", Task: "none", Identity: "default"}, err: "no identity"},
		{name: api.IdentityName{AllocID: "a1", Identity: "default"}, err: "no identity"},
		{name: api.IdentityName{AllocID: "a1", Task: "t", Identity: "forged"}, err: "reserved for nodes"},
		{name: api.IdentityName{AllocID: "a1", Task: "t", Identity: "huge"}, err: "at most"},
		{err: "not found"},
	}
	r := &api.AllocSignIdentitiesRequest{NodeID: "n1"}
	for _, x := range cases {
		r.Identities = append(r.Identities, &x.name)
	}
	before := c.state.Read().Index()
	out, err := c.SignIdentities(t.Context(), r)
	if err != nil || len(out.Signed) != len(cases) || c.state.Read().Index() != before {
		t.Fatalf("%+v %v", out, err)
	}
	for i, x := range cases {
		got := out.Signed[i]
		if got.IdentityName != x.name || (got.JWT == "") != (x.err != "") || !strings.Contains(got.Error, x.err) || x.err == "" && got.Error != "" {
			t.Errorf("%+v: %+v", x, got)
		}
		if x.err != "" {
			continue
		}
		claims, alg := c.read(t, got.JWT)
		x.want.Issuer, x.want.ID, x.want.IssuedAt, x.want.NotBefore = c.Issuer, claims.ID, c.now.Unix(), c.now.Unix()
		x.want.Namespace, x.want.JobID, x.want.AllocationID = "default", "web", "a1"
		if d := cmp.Diff(x.want, claims); d != "" || alg != x.alg || !got.Expiration.Equal(claims.Expires()) {
			t.Errorf("%s %s: %s", alg, got.Expiration, d)
		}
	}
}

func TestNothingIsSignedWithoutAKey(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.put(t, running())
	r := &api.AllocSignIdentitiesRequest{NodeID: "n1", Identities: []*api.IdentityName{{AllocID: "a1", Task: "t", Identity: "default"}}}
	c.Service.Active = func() (*identity.Key, error) { return nil, fault.New(fault.Unavailable, "no key") }
	if _, err := c.SignIdentities(t.Context(), r); !errors.Is(err, fault.Unavailable) {
		t.Error(err)
	}
	r.Identities = make([]*api.IdentityName, 1001)
	if _, err := c.SignIdentities(t.Context(), r); !errors.Is(err, fault.Invalid) {
		t.Error(err)
	}
}

func TestExtraClaimsAreChecked(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ name, template, err string }{
		{"team", "red", ""},
		{"a.b/c", "${job.id}${ job.name } ${job.namespace} ${job.region} ${job.node_pool} ${group.name} ${alloc.id} ${alloc.name} ${task.name}", ""},
		{"node", "$ { $x ${node.id} ${node.name} ${node.datacenter} ${node.pool} ${node.class}", ""},
		{"sub", "x", "reserved"},
		{"aud", "x", "reserved"},
		{"jti", "x", "reserved"},
		{"nomad_task", "x", "reserved"},
		{"nomad_other", "x", "reserved"},
		{"", "x", "reserved"},
		{"x", "${job.secret}", "unknown"},
		{"x", "${job.id", "unknown"},
		{"x", "${}", "unknown"},
		{"x", "${ ${job.id} }", "unknown"},
		{strings.Repeat("x", 200), "x", "at most"},
		{"x", strings.Repeat("x", 2000), "at most"},
	} {
		err := identity.CheckExtra(map[string]string{x.name: x.template})
		if (err == nil) != (x.err == "") || err != nil && (!strings.Contains(err.Error(), x.err) || !errors.Is(err, fault.Invalid)) {
			t.Errorf("%q = %q: %v", x.name, x.template, err)
		}
	}
}

func TestDiscoveryNamesTheIssuer(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	out, err := c.Discovery(t.Context(), nil)
	if err != nil || out.OIDCDiscovery.Issuer != c.Issuer || out.OIDCDiscovery.JWKS != c.Issuer+"/.well-known/jwks.json" {
		t.Errorf("%+v %v", out, err)
	}
	c.Service.Issuer = ""
	if out, err := c.Discovery(t.Context(), nil); err != nil || out.OIDCDiscovery != nil {
		t.Errorf("without an issuer: %+v %v", out, err)
	}
}
