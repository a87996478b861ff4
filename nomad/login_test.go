package nomad_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/login/providertest"
)

// Heartbeats and reads are served while logins fail a thousand times a second.
func TestFailedLoginsDoNotDelayHeartbeats(t *testing.T) {
	t.Parallel()
	s, _ := launch(t, nomad.Config{
		Name: "s1", Region: "global", Datacenter: "dc1", Dir: t.TempDir(), Bind: "127.0.0.1:0", Log: hclog.NewNullLogger(), AccessControl: true,
	})
	ctx, c := t.Context(), s.Caller()
	p := providertest.New()
	t.Cleanup(p.Close)
	boot, err := wire.ACLBootstrap.Call(ctx, c, &api.ACLBootstrapRequest{})
	if err != nil {
		t.Fatal(err)
	}
	as := api.WriteRequest{SecretID: boot.Token.SecretID}
	if _, err := wire.ACLAuthMethodUpsert.Call(ctx, c, &api.ACLAuthMethodUpsertRequest{WriteRequest: as, Method: &api.ACLAuthMethod{
		Name: "m", Type: api.AuthMethodJWT, TokenLocality: api.TokenLocalityLocal, MaxTokenTTL: time.Hour,
		Config: &api.ACLAuthMethodConfig{JWTValidationPubKeys: []string{providertest.PublicPEM(p.RSA.Public())}, BoundAudiences: []string{"nomad"}},
	}}); err != nil {
		t.Fatal(err)
	}
	node := &api.Node{ID: "11111111-1111-1111-1111-111111111111", SecretID: "22222222-2222-2222-2222-222222222222", Name: "n", Datacenter: "dc1", Status: "ready"}
	if _, err := wire.NodeRegister.Call(ctx, c, &api.NodeRegisterRequest{Node: node}); err != nil {
		t.Fatal(err)
	}
	token := p.Token(p.Claims(map[string]any{"aud": "elsewhere"}))
	const senders, each = 10, 300
	var flood sync.WaitGroup
	for range senders {
		flood.Go(func() {
			pace := time.NewTicker(time.Second * senders / 1000)
			defer pace.Stop()
			for range each {
				_, err := wire.ACLLogin.Call(ctx, c, &api.ACLLoginRequest{AuthMethodName: "m", LoginToken: token})
				if !errors.Is(err, fault.Unauthenticated) && !errors.Is(err, fault.Exhausted) {
					t.Errorf("a login: %v", err)
				}
				<-pace.C
			}
		})
	}
	over := make(chan struct{})
	go func() { flood.Wait(); close(over) }()
	var took []time.Duration
	for flooded := true; flooded; {
		began := time.Now()
		if _, err := wire.NodeHeartbeat.Call(ctx, c, &api.NodeHeartbeatRequest{NodeID: node.ID, NodeSecret: node.SecretID}); err != nil {
			t.Errorf("a heartbeat: %v", err)
		}
		if _, err := wire.JobList.Call(ctx, c, &api.JobListRequest{QueryOptions: api.QueryOptions{AuthToken: as.SecretID}}); err != nil {
			t.Errorf("a read: %v", err)
		}
		took = append(took, time.Since(began))
		select {
		case <-over:
			flooded = false
		case <-time.After(5 * time.Millisecond):
		}
	}
	slices.Sort(took)
	t.Logf("%d heartbeats with a read: median %s, at most %s", len(took), took[len(took)/2], took[len(took)-1])
	if took[len(took)*9/10] > time.Second {
		t.Errorf("one in ten heartbeats took more than %s", took[len(took)*9/10])
	}
}
