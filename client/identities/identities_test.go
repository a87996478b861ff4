package identities_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/identities"
)

// caller serves one method.
type caller func(*api.AllocSignIdentitiesRequest) (*api.AllocSignIdentitiesResponse, error)

func (c caller) Invoke(_ context.Context, method string, req, resp any) error {
	out, err := c(req.(*api.AllocSignIdentitiesRequest))
	if err == nil {
		*resp.(*api.AllocSignIdentitiesResponse) = *out
	}
	return err
}

func signer(c wire.Caller) *identities.Signer {
	return &identities.Signer{Servers: c, NodeID: "n1", Secret: func() string { return "s1" }}
}

func TestSign(t *testing.T) {
	s := signer(caller(func(r *api.AllocSignIdentitiesRequest) (*api.AllocSignIdentitiesResponse, error) {
		if r.NodeID != "n1" || r.NodeSecret != "s1" {
			t.Errorf("request %+v", r)
		}
		out := &api.AllocSignIdentitiesResponse{}
		for _, id := range r.Identities {
			out.Signed = append(out.Signed, &api.SignedIdentity{IdentityName: *id, JWT: id.AllocID + "." + id.Task + "." + id.Identity})
		}
		return out, nil
	}))
	got, err := s.Sign(t.Context(), "a1", "t", []string{"default", "aws"})
	if err != nil || len(got) != 2 || got["default"] != "a1.t.default" || got["aws"] != "a1.t.aws" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestRefusalsAreNotTriedAgain(t *testing.T) {
	refused := func(signed ...*api.SignedIdentity) caller {
		return func(*api.AllocSignIdentitiesRequest) (*api.AllocSignIdentitiesResponse, error) {
			return &api.AllocSignIdentitiesResponse{Signed: signed}, nil
		}
	}
	fails := func(err error) caller {
		return func(*api.AllocSignIdentitiesRequest) (*api.AllocSignIdentitiesResponse, error) { return nil, err }
	}
	for name, c := range map[string]struct {
		servers caller
		passing bool
		text    string
	}{
		"refused":   {refused(&api.SignedIdentity{JWT: "x"}, &api.SignedIdentity{Error: "allocation has ended"}), false, `identity "b" is refused: allocation has ended`},
		"empty":     {refused(nil, nil), false, `identity "a" is refused: the response is empty`},
		"too few":   {refused(&api.SignedIdentity{JWT: "x"}), false, "1 identities instead of 2"},
		"denied":    {fails(fault.New(fault.Denied, "no")), false, "no"},
		"no leader": {fails(fmt.Errorf("call: %w", fault.New(fault.NotLeader, "no leader"))), true, "no leader"},
		"no reply":  {fails(context.DeadlineExceeded), true, ""},
	} {
		got, err := signer(c.servers).Sign(t.Context(), "a1", "t", []string{"a", "b"})
		if err == nil || got != nil || identities.Passing(err) != c.passing || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if identities.Passing(errors.New("bug")) {
		t.Error("an unknown error passes")
	}
}

func TestRenewals(t *testing.T) {
	most := func(d time.Duration) time.Duration { return d }
	start := time.Now()
	task := &api.Task{
		Identity: &api.WorkloadIdentity{Env: true},
		Identities: []*api.WorkloadIdentity{
			{Name: "hour", File: true, TTL: time.Hour},
			{Name: "same", Env: true, TTL: time.Hour, ChangeMode: "restart"},
			{Name: "minute", File: true, TTL: time.Minute},
			{Name: "stale", Env: true, TTL: time.Minute},
			{Name: "lasting", File: true},
		},
	}
	r := identities.RenewalsOf(task, start)
	if got := r.Wait(start, most); got != 36*time.Second {
		t.Errorf("first wait %v, want half of a minute and a fifth of that", got)
	}
	if names := due(r, start.Add(29*time.Second)); names != "" {
		t.Errorf("due early: %s", names)
	}
	if names := due(r, start.Add(36*time.Second)); names != "minute" {
		t.Errorf("due: %s", names)
	}
	r.Renewed(start.Add(36 * time.Second))
	if got := r.Wait(start.Add(36*time.Second), most); got != 36*time.Second {
		t.Errorf("second wait %v", got)
	}
	// An agent that was away for a day renews all at once, after a short random delay.
	late := start.Add(24 * time.Hour)
	if got := r.Wait(late, most); got > 10*time.Second {
		t.Errorf("wait of an overdue renewal %v", got)
	}
	if names := due(r, late); names != "hour same minute" {
		t.Errorf("due late: %s", names)
	}
	if got := r.Wait(start.Add(-24*time.Hour), most); got > time.Minute {
		t.Errorf("wait after the clock was set back %v", got)
	}
	if !identities.RenewalsOf(&api.Task{Identity: &api.WorkloadIdentity{File: true}}, start).Empty() {
		t.Error("a default identity without ttl is renewed")
	}
	short := identities.RenewalsOf(&api.Task{Identities: []*api.WorkloadIdentity{{Name: "x", File: true, TTL: 1}}}, start)
	if got := short.Wait(start, func(time.Duration) time.Duration { return 0 }); got < time.Second {
		t.Errorf("wait of the least ttl %v", got)
	}
}

func due(r *identities.Renewals, now time.Time) string {
	var names []string
	for _, id := range r.Due(now) {
		names = append(names, id.Name)
	}
	return strings.Join(names, " ")
}
