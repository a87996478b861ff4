package nomad_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
)

// rootKeys are the ids of the root keys as the host knows them, the active one last.
func (h *host) rootKeys() (ids []string) {
	out, err := wire.KeyringList.Call(h.t.Context(), h.server.Caller(), &api.QueryOptions{})
	if err != nil {
		return nil
	}
	for _, k := range out.Keys {
		ids = append(ids, k.KeyID)
	}
	return ids
}

// unlocks reports whether the host holds what unwraps a root key.
func (h *host) unlocks(id string) bool {
	_, err := os.Stat(filepath.Join(h.conf.Dir, "keystore", id+".json"))
	return err == nil
}

func TestRootKeySurvivesItsLeaderAndReachesNewServers(t *testing.T) {
	t.Parallel()
	all := trio(t)
	var keys []string
	until(t, "a root key", func() bool { keys = all[0].rootKeys(); return len(keys) == 1 })
	for _, h := range all {
		until(t, h.conf.Name+" holds what unwraps it", func() bool { return h.unlocks(keys[0]) })
	}
	leader, followers := led(t, all)
	leader.stop()
	d := newHost(t, "d", "global", 0, followers[0]).start()
	until(t, "the new server holds what unwraps it", func() bool { return d.unlocks(keys[0]) })
	until(t, "another server leads", func() bool { l, _ := split(followers); return l != nil })
	var got []string
	until(t, "an answer of another server", func() bool { got = followers[0].rootKeys(); return len(got) > 0 })
	if len(got) != 1 || got[0] != keys[0] {
		t.Errorf("the key was %v and is %v", keys, got)
	}
}

func TestRootKeyIsTheSameAfterARestart(t *testing.T) {
	t.Parallel()
	h := newHost(t, "a", "global", 1).start()
	var keys []string
	until(t, "a root key", func() bool { keys = h.rootKeys(); return len(keys) == 1 })
	h.stop()
	h.start()
	until(t, "it leads again", func() bool { return len(h.rootKeys()) > 0 })
	if _, err := wire.KeyringRotate.Call(t.Context(), h.server.Caller(), &api.RootKeyRotateRequest{}); err != nil {
		t.Fatal(err)
	}
	got := h.rootKeys()
	if len(got) != 2 || got[0] != keys[0] {
		t.Errorf("the key was %v; after a restart and a rotation there are %v", keys, got)
	}
}

func TestServersWithoutKeyFilesWaitForTheOneThatHasThem(t *testing.T) {
	t.Parallel()
	all := trio(t)
	until(t, "a variable is written", func() bool {
		_, err := wire.VariableApply.Call(t.Context(), all[0].server.Caller(), &api.VariableApplyRequest{Op: api.VariableSet, Path: "p", Items: map[string]string{"k": "v"}})
		return err == nil
	})
	key := all[0].rootKeys()[0]
	for _, h := range all {
		until(t, h.conf.Name+" has the key file", func() bool { return h.unlocks(key) })
	}
	for _, h := range all {
		h.stop()
	}
	for _, h := range all[1:] {
		if err := os.RemoveAll(filepath.Join(h.conf.Dir, "keystore")); err != nil {
			t.Fatal(err)
		}
		h.start()
	}
	read := func(h *host) error {
		q := api.QueryOptions{Stale: true}
		out, err := wire.VariableGet.Call(t.Context(), h.server.Caller(), &api.VariableRequest{Path: "p", QueryOptions: q})
		if err == nil && out.Items["k"] != "v" {
			return errors.New("the variable is missing")
		}
		return err
	}
	led(t, all[1:])
	for _, h := range all[1:] {
		until(t, h.conf.Name+" names the cause", func() bool {
			err := read(h)
			return err != nil && strings.Contains(err.Error(), key+".json is missing") && strings.Contains(err.Error(), "none of 1 other servers")
		})
		if err := h.server.Health(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("health of %s: %v", h.conf.Name, err)
		}
	}
	all[0].start()
	for _, h := range all {
		until(t, h.conf.Name+" reads the variable", func() bool { return read(h) == nil && h.server.Health() == nil })
	}
	if got := all[1].rootKeys(); len(got) != 1 {
		t.Errorf("a new key was made: %v", got)
	}
}
