package hostvolumes_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/hostvolumes"
)

// records is a bucket in memory.
type records struct {
	sync.Mutex
	all map[string][]byte
}

func (r *records) Put(key string, value []byte) error {
	r.Lock()
	defer r.Unlock()
	r.all[key] = value
	return nil
}

func (r *records) Delete(key string) error {
	r.Lock()
	defer r.Unlock()
	delete(r.all, key)
	return nil
}

func (r *records) All() (map[string][]byte, error) {
	r.Lock()
	defer r.Unlock()
	return maps.Clone(r.all), nil
}

// node is what the tests see of a node.
type node struct {
	*hostvolumes.Service
	t       *testing.T
	dir     string
	records *records
	mu      sync.Mutex
	offered map[string]*api.HostVolumeInfo
}

// start starts the service as a new agent process does.
func start(t *testing.T, dir string, r *records) *node {
	t.Helper()
	n := &node{t: t, dir: dir, records: r}
	var err error
	n.Service, err = hostvolumes.New(hostvolumes.Config{
		Dir: filepath.Join(dir, "volumes"), PluginDir: filepath.Join(dir, "plugins"), Records: r, Log: hclog.NewNullLogger(),
		Static: map[string]*api.HostVolumeInfo{"fixed": {Path: dir}},
		Changed: func(all map[string]*api.HostVolumeInfo) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.offered = all
		},
		NodeEvent: func(*api.NodeEvent) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = n.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	<-n.Restored()
	return n
}

func (n *node) offers(name string) *api.HostVolumeInfo {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.offered[name]
}

func (n *node) create(v *api.HostVolume) (string, error) {
	out, err := n.Create(n.t.Context(), &api.NodeHostVolumeRequest{Volume: v})
	if err != nil {
		return "", err
	}
	return out.HostPath, nil
}

func (n *node) remove(v *api.HostVolume) error {
	_, err := n.Delete(n.t.Context(), &api.NodeHostVolumeRequest{Volume: v})
	return err
}

func volume(name, plugin string, parameters map[string]string) *api.HostVolume {
	return &api.HostVolume{Namespace: "default", ID: uuid.NewString(), Name: name, PluginID: plugin, NodeID: "n1", NodePool: "default", Parameters: parameters}
}

func refused(t *testing.T, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("%v, want %q", err, words)
	}
}

func TestDirectoryIsMadeFoundAgainAndDeleted(t *testing.T) {
	t.Parallel()
	dir, r := t.TempDir(), &records{all: map[string][]byte{}}
	n := start(t, dir, r)
	v := volume("data", "mkdir", map[string]string{"mode": "0750"})
	path, err := n.create(v)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o750 || n.offers("data").ID != v.ID || n.offers("fixed") == nil {
		t.Fatalf("%v %v %+v", st, err, n.offers("data"))
	}
	if err := os.WriteFile(filepath.Join(path, "f"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := n.create(v); again != path || err != nil { // the answer was lost
		t.Errorf("%s %v", again, err)
	}
	_, err = n.create(volume("data", "mkdir", nil))
	refused(t, err, `has host volume "data" already`)
	_, err = n.create(volume("fixed", "mkdir", nil))
	refused(t, err, "configuration of the node")

	n = start(t, dir, r) // the agent is restarted
	if n.offers("data") == nil {
		t.Fatal("the volume is not restored")
	}
	if info, err := n.Find(t.Context(), "default", "data"); err != nil || info.Path != path {
		t.Errorf("%+v %v", info, err)
	}
	if _, err := n.Find(t.Context(), "other", "data"); !errors.Is(err, fault.NotFound) {
		t.Errorf("another namespace finds it: %v", err)
	}
	for range 2 { // the answer was lost
		if err := n.remove(v); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) || n.offers("data") != nil || len(r.all) > 0 {
		t.Errorf("it is left: %v %v", err, n.offers("data"))
	}
	_, err = n.create(v) // which was late
	refused(t, err, "was deleted on this node")
}

func TestRegisteredDirectoryStays(t *testing.T) {
	t.Parallel()
	n := start(t, t.TempDir(), &records{all: map[string][]byte{}})
	v := volume("data", "", nil)
	v.Registered, v.HostPath = true, filepath.Join(n.dir, "own")
	_, err := n.create(v)
	refused(t, err, "make the directory on the node first")
	if err := os.Mkdir(v.HostPath, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := n.create(v); err != nil {
		t.Fatal(err)
	}
	if err := n.remove(v); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(v.HostPath); err != nil {
		t.Error(err)
	}
}

// TestBadPlugins: what plugins do wrong is the error of their call, and nothing is offered or left.
func TestBadPlugins(t *testing.T) {
	t.Parallel()
	n := start(t, t.TempDir(), &records{all: map[string][]byte{}})
	outside := filepath.Join(n.dir, "outside")
	if err := errors.Join(os.Mkdir(filepath.Join(n.dir, "plugins"), 0o755), os.Mkdir(outside, 0o755), os.Mkdir(filepath.Join(n.dir, "volumes"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"good":     `echo "{\"path\":\"` + outside + `\",\"bytes\":7}"`,
		"nonsense": "echo warp core",
		"failing":  "echo no dilithium >&2; exit 3",
		"relative": `echo '{"path":"x"}'`,
		"absent":   `echo '{"path":"/nonexistent/x"}'`,
		"flood":    "head -c 1000000 /dev/zero",
		"small":    `echo "{\"path\":\"` + outside + `\",\"bytes\":1}"`,
	} {
		if err := os.WriteFile(filepath.Join(n.dir, "plugins", name), []byte("#!/bin/sh\n[ \"$1\" = fingerprint ] && { echo '{\"version\":\"1.0.0\"}'; exit; }\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got := n.Fingerprint(t.Context()); got["plugins.host_volume.good.version"] != "1.0.0" || got["plugins.host_volume.mkdir.version"] == "" {
		t.Errorf("%v", got)
	}
	link := volume("link", "mkdir", nil)
	if err := os.Symlink(outside, filepath.Join(n.dir, "volumes", link.ID)); err != nil {
		t.Fatal(err)
	}
	small := volume("v", "small", nil)
	small.RequestedCapacityMinBytes = 5
	for words, v := range map[string]*api.HostVolume{
		"did not print a JSON object": volume("v", "nonsense", nil),
		"no dilithium":                volume("v", "failing", nil),
		"not absolute":                volume("v", "relative", nil),
		"look at what it made":        volume("v", "absent", nil),
		"printed more than":           volume("v", "flood", nil),
		"at least 5 are requested":    small,
		"no such plugin":              volume("v", "none", nil),
		"no name of a host volume":    volume("v", "../plugins/good", nil),
		"is not a directory":          link,
		`no parameter "size"`:         volume("v", "mkdir", map[string]string{"size": "1"}),
		"not an octal mode":           volume("v", "mkdir", map[string]string{"mode": "rwx"}),
		"is not the id":               {ID: "../../etc", Name: "v", PluginID: "mkdir"},
	} {
		_, err := n.create(v)
		refused(t, err, words)
		if n.offers(v.Name) != nil || len(n.records.all) > 0 {
			t.Errorf("%s: it is offered", words)
		}
	}
	if path, err := n.create(volume("v", "good", nil)); path != outside || err != nil || n.offers("v").CapacityBytes != 7 {
		t.Errorf("%s %v", path, err)
	}
}

// What is mounted in the directory of a volume is not the volume's to delete.
func TestMountInADirectoryStays(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounts need root")
	}
	n := start(t, t.TempDir(), &records{all: map[string][]byte{}})
	v := volume("data", "mkdir", nil)
	path, err := n.create(v)
	if err != nil {
		t.Fatal(err)
	}
	other, at := t.TempDir(), filepath.Join(path, "at")
	if err := errors.Join(os.WriteFile(filepath.Join(other, "kept"), nil, 0o600), os.Mkdir(at, 0o700), unix.Mount(other, at, "", unix.MS_BIND, "")); err != nil {
		t.Fatal(err)
	}
	err = n.remove(v)
	if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), at+" is a mount") {
		t.Errorf("error %v", err)
	}
	if err := unix.Unmount(at, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(other, "kept")); err != nil {
		t.Errorf("the mounted file: %v", err)
	}
	if err := n.remove(v); err != nil {
		t.Errorf("without the mount: %v", err)
	}
}
