package operator_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/command/operator"
	"github.com/open-nomad/open-nomad/nomad"
)

// ran is a data directory in which a server has run, and its address.
func ran(t *testing.T) (dir, address string) {
	t.Helper()
	dir = t.TempDir()
	server := filepath.Join(dir, "server")
	if err := os.Mkdir(server, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := nomad.New(nomad.Config{Name: "s1", Region: "global", Datacenter: "dc1", Dir: server, Bind: "127.0.0.1:0", Log: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	for limit := time.Now().Add(30 * time.Second); ; {
		if _, err := wire.JobList.Call(t.Context(), s.Caller(), &api.JobListRequest{}); err == nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("no leader")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return dir, s.Address()
}

func recoverRaft(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := &cli.Command{Name: "nomad", Writer: &out, ErrWriter: &out, Commands: []*cli.Command{operator.RaftRecover("recover")}}
	err := root.Run(t.Context(), append([]string{"nomad", "recover"}, args...))
	return out.String(), err
}

func TestRaftRecoverLooksAndSetsPeers(t *testing.T) {
	t.Parallel()
	dir, address := ran(t)
	if out, err := recoverRaft(t, dir); err != nil || !strings.Contains(out, "\nAll of it can be read and applied\n") || strings.Contains(out, "backup") {
		t.Errorf("look: %v\n%s", err, out)
	}
	id, err := os.ReadFile(filepath.Join(dir, "server", "server_id"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "peers.json")
	for body, want := range map[string]string{
		`[{"id": "x"}]`: "no address", `[]`: "contains no voter", `{}`: "no list",
		`[{"id": "` + strings.TrimSpace(string(id)) + `", "address": "` + address + `"}]`: "",
	} {
		if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := recoverRaft(t, "-peers", file, dir)
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", body, err)
		}
		if want == "" && (err != nil || !strings.Contains(out, "raft.backup-")) {
			t.Errorf("%s: %v\n%s", body, err, out)
		}
	}
	for _, args := range [][]string{{t.TempDir()}, {"-skip", "5", "-cut", "6", dir}, {"-skip", "-1", dir}} {
		if out, err := recoverRaft(t, args...); err == nil {
			t.Errorf("%v: %s", args, out)
		}
	}
}
