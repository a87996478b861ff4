package nomad_test

import (
	"os"
	"path/filepath"
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
