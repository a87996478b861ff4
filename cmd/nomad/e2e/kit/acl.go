package kit

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

// ACL reports whether all agents run with access control: by E2E_ACL=1.
var ACL = os.Getenv("E2E_ACL") != ""

// ManagementToken is the secret of the management token of agents with access control.
const ManagementToken = "e2e00000-0000-4000-8000-000000000001"

func init() {
	if ACL { // commands and requests of tests have the token, too
		_ = os.Setenv("NOMAD_TOKEN", ManagementToken)
		http.DefaultTransport = WithToken(http.DefaultTransport)
	}
}

// Token is the secret of the management token; it is empty without access control.
func Token() string { return token(ACL) }

func token(acl bool) string {
	if acl {
		return ManagementToken
	}
	return ""
}

// WithToken gives requests the management token, unless they have one.
func WithToken(t http.RoundTripper) http.RoundTripper { return withToken{t} }

// WithoutACL skips a test that has no sense with access control.
func WithoutACL(tb testing.TB, reason string) {
	tb.Helper()
	if ACL {
		tb.Skip("with access control: " + reason)
	}
}

type withToken struct{ http.RoundTripper }

func (t withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Nomad-Token") == "" {
		r = r.Clone(r.Context())
		r.Header.Set("X-Nomad-Token", ManagementToken)
	}
	return t.RoundTripper.RoundTrip(r)
}

// access is the configuration of access control. Tokens may expire while a test waits for it.
func access(acl bool) string {
	return fmt.Sprintf("\nacl {\n  enabled = %v\n  token_min_expiration_ttl = \"1s\"\n}\n", acl)
}

// bootstrap creates the management token as soon as the cluster has a leader, unless it is there.
func (a *Agent) bootstrap() {
	if a.API == nil || !a.acl {
		return
	}
	go func(at *api.Client, ended chan struct{}) {
		for {
			_, _, err := at.ACLTokens().BootstrapOpts(ManagementToken, nil)
			if err == nil || strings.Contains(err.Error(), "already done") {
				return
			}
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}(a.API, a.ended)
}
