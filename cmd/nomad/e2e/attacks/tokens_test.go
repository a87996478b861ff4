package attacks

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// guarded is a server and a node, each an agent of its own, with access control and a job that is silent after one line.
func guarded(t *testing.T) (server, node *kit.Host, alloc string) {
	t.Helper()
	lab := kit.NewLab(t)
	lab.ACL = true
	server, node = lab.Host("s1"), lab.Host("n1")
	server.Serve([]*kit.Host{server}, "")
	node.Work([]*kit.Host{server}, "")
	server.Ready(1)
	server.Register(kit.ShellJob("quiet", "echo hello; exec sleep 1000"))
	return server, node, server.Running("quiet", 1).ID
}

// get reads a path with a token and returns the status and the body.
func get(t *testing.T, h *kit.Host, path, token string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, h.API.Address()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Nomad-Token", token)
	web := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := web.Do(r)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return response.StatusCode, string(body)
}

// expiring makes a token that expires.
func expiring(t *testing.T, h *kit.Host, policy string, after time.Duration) *api.ACLToken {
	t.Helper()
	k, _, err := h.API.ACLTokens().Create(&api.ACLToken{Name: "expiring", Type: "client", Policies: []string{policy}, ExpirationTTL: after}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

const reader = `
	namespace "default" { capabilities = ["list-jobs", "read-job", "read-logs", "read-fs"] }
	agent { policy = "read" }`

// TestAClientAsksTheServersAboutTokens reads logs, files, the agent and its gauges at an agent that is only a client.
func TestAClientAsksTheServersAboutTokens(t *testing.T) {
	t.Parallel()
	server, node, alloc := guarded(t)
	good := server.ClientToken("reader", reader)
	other := server.ClientToken("other", `namespace "elsewhere" { policy = "write" } operator { policy = "write" }`)
	deleted := server.ClientToken("deleted", reader)
	if _, err := server.API.ACLTokens().Delete(deleted.AccessorID, nil); err != nil {
		t.Fatal(err)
	}
	secret := nodeSecret(t, node)
	paths := []string{
		"/v1/client/fs/logs/" + alloc + "?task=main&type=stdout&plain=true", "/v1/client/fs/cat/" + alloc + "?path=alloc/logs/main.stdout.0",
		"/v1/client/fs/ls/" + alloc, "/v1/client/allocation/" + alloc + "/stats", "/v1/agent/self", "/v1/jobs",
	}
	for _, path := range paths {
		if code, body := get(t, node, path, good.SecretID); code != http.StatusOK {
			t.Errorf("%s with its right: %d %s", path, code, body)
		}
		bad := map[string]string{"no": "", "an unknown": "00000000-0000-0000-0000-00000000dead", "a deleted": deleted.SecretID, "the node's": secret, "another": other.SecretID}
		for who, token := range bad {
			code, body := get(t, node, path, token)
			if code != http.StatusForbidden && (who != "another" || code != http.StatusNotFound) || strings.Contains(body, "hello") {
				t.Errorf("%s with %s token: %d %s", path, who, code, body)
			}
		}
	}
	for who, token := range map[string]string{"no": "", "a good": good.SecretID, "a deleted": deleted.SecretID} {
		if code, body := get(t, node, "/v1/metrics", token); code != http.StatusOK {
			t.Errorf("/v1/metrics with %s token: %d %s", who, code, body)
		}
	}
	// the secret of a node is not the token of a user
	for _, path := range []string{"/v1/nodes", "/v1/acl/token/self", "/v1/acl/tokens", "/v1/node/" + falseNode, "/v1/operator/scheduler/configuration", "/v1/volumes?type=csi"} {
		if code, body := get(t, server, path, secret); code != http.StatusForbidden {
			t.Errorf("%s with the secret of a node: %d %s", path, code, body)
		}
	}
}

// nodeSecret is the secret that a node keeps.
func nodeSecret(t *testing.T, node *kit.Host) string {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(node.Dir, "data", "client", "*secret*"))
	if len(files) != 1 {
		t.Fatalf("the files with the secret of the node: %v", files)
	}
	body, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(body))
}

// TestWaitingReadsEndWithTheirToken: blocking queries and followed logs, at the server and at the client, end when their token
// is deleted or expires.
func TestWaitingReadsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	server, node, alloc := guarded(t)
	server.ClientToken("reader", reader)
	var jobs []json.RawMessage
	meta, err := server.API.Raw().Query("/v1/jobs", &jobs, nil)
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{
		"a blocking list":   fmt.Sprintf("/v1/jobs?index=%d&wait=5m", meta.LastIndex+100),
		"a blocking object": fmt.Sprintf("/v1/job/quiet?index=%d&wait=5m", meta.LastIndex+100),
		"an event stream":   "/v1/event/stream?topic=Allocation",
		"the agent's log":   "/v1/agent/monitor?log_level=error",
		"a followed log":    "/v1/client/fs/logs/" + alloc + "?task=main&type=stdout&follow=true",
		"a followed file":   "/v1/client/fs/stream/" + alloc + "?path=alloc/logs/main.stdout.0&follow=true",
	}
	const life, limit = 6 * time.Second, 3 * time.Second // a second, on a busy machine
	t.Run("deleted", func(t *testing.T) {
		for what, path := range paths {
			for _, at := range []*kit.Host{server, node} {
				token := expiring(t, server, "reader", time.Hour)
				ended := wait(t, at, path, token.SecretID)
				<-time.After(200 * time.Millisecond)
				began := time.Now()
				if _, err := server.API.ACLTokens().Delete(token.AccessorID, nil); err != nil {
					t.Fatal(err)
				}
				ends(t, what+" at "+at.Name, ended, began, limit)
			}
		}
	})
	t.Run("expired", func(t *testing.T) {
		token := expiring(t, server, "reader", life)
		began := *token.ExpirationTime
		all := map[string]<-chan string{}
		for what, path := range paths {
			for _, at := range []*kit.Host{server, node} {
				all[what+" at "+at.Name] = wait(t, at, path, token.SecretID)
			}
		}
		<-time.After(time.Until(began) - time.Second)
		for what, ended := range all {
			if len(ended) > 0 {
				t.Errorf("%s ended before its token: %s", what, <-ended)
				delete(all, what)
			}
		}
		for what, ended := range all {
			ends(t, what, ended, began, limit)
		}
	})
}

// wait sends a request that waits, and sends what it got when it has ended.
func wait(t *testing.T, h *kit.Host, path, token string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.API.Address()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Nomad-Token", token)
	ended := make(chan string, 1)
	go func() {
		response, err := (&http.Client{Transport: &http.Transport{}}).Do(r)
		if err != nil {
			ended <- err.Error()
			return
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		ended <- fmt.Sprintf("%d %s %v", response.StatusCode, body, err)
	}()
	return ended
}

func ends(t *testing.T, what string, ended <-chan string, began time.Time, limit time.Duration) {
	t.Helper()
	select {
	case body := <-ended:
		took := time.Since(began)
		t.Logf("%s ended after %v: %.100s", what, took.Round(time.Millisecond), body)
		if took > limit {
			t.Errorf("%s ended %v after its token", what, took)
		}
		if !strings.Contains(body, "403") && !strings.Contains(body, "Permission denied") && !strings.Contains(body, "EOF") && !strings.Contains(body, "reset") {
			t.Errorf("%s ended with %s", what, body)
		}
	case <-time.After(time.Until(began) + limit + 10*time.Second):
		t.Errorf("%s continues without its token", what)
	}
}
