package nomad_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad"
)

// TestFilesHoldNoItemsInClear looks for the items of a variable in the log, the snapshots and all other files of a server.
func TestFilesHoldNoItemsInClear(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, stop := launch(t, nomad.Config{Name: "s1", Region: "global", Datacenter: "dc1", Dir: dir, Bind: "127.0.0.1:0", Log: hclog.NewNullLogger(), Workers: -1})
	const item, path = "canary-item-4711", "canary-path-4711"
	for _, op := range []api.VariableOp{api.VariableSet, api.VariableAcquire} {
		until(t, "the variable is written", func() bool {
			_, err := wire.VariableApply.Call(t.Context(), s.Caller(), &api.VariableApplyRequest{Op: op, Path: path, Items: map[string]string{item: item}})
			return err == nil
		})
	}
	var archive []byte
	req := &api.SnapshotReadRequest{}
	for {
		out, err := wire.OperatorSnapshotRead.Call(t.Context(), s.Caller(), req)
		if err != nil {
			t.Fatal(err)
		}
		archive = append(archive, out.Data...)
		if out.EOF {
			break
		}
		req.Token, req.Offset = out.Token, int64(len(archive))
	}
	got, err := wire.VariableGet.Call(t.Context(), s.Caller(), &api.VariableRequest{Path: path})
	if err != nil || got.Items[item] != item {
		t.Fatalf("%+v %v", got, err)
	}
	stop()
	found := false
	look := func(name string, body []byte) {
		if z, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			if body, err = io.ReadAll(z); err != nil {
				t.Fatal(name, err)
			}
		}
		if bytes.Contains(body, []byte(item)) {
			t.Errorf("%s holds the item", name)
		}
		found = found || bytes.Contains(body, []byte(path))
	}
	look("the snapshot", archive)
	if !found {
		t.Error("the snapshot does not hold the variable")
	}
	found = false
	if err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := os.ReadFile(name)
		look(name, body)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if !found {
		t.Error("no file holds the path")
	}
}

// TestEveryServerReadsVariables reads a variable on each server, and after the loss of the one that encrypted it.
func TestEveryServerReadsVariables(t *testing.T) {
	t.Parallel()
	all := trio(t)
	until(t, "the variable is written", func() bool {
		out, err := wire.VariableApply.Call(t.Context(), all[0].server.Caller(), &api.VariableApplyRequest{Op: api.VariableSet, Path: "p", Items: map[string]string{"k": "1"}})
		return err == nil && !out.Conflict
	})
	read := func(hosts []*host, stale bool) {
		t.Helper()
		for _, h := range hosts {
			until(t, "read on "+h.conf.Name, func() bool {
				out, err := wire.VariableGet.Call(t.Context(), h.server.Caller(), &api.VariableRequest{Path: "p", QueryOptions: api.QueryOptions{Stale: stale}})
				return err == nil && out.Items["k"] == "1"
			})
		}
	}
	read(all, true)
	leader, followers := led(t, all)
	leader.stop()
	read(followers, false)
}
