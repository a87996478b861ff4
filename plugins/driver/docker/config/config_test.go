package config_test

import (
	"errors"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/config"
)

// values are good values of keys for which that of their type is none.
var values = map[string]any{
	"plugin gc.image_delay": "1m", "plugin infra_image_pull_timeout": "1m", "plugin image_pull_timeout": "1m",
	"plugin pull_activity_timeout": "1m", "plugin gc.dangling_containers.period": "1m", "plugin gc.dangling_containers.creation_grace": "1m",
	"task image_pull_timeout": "1m", "task cgroupns": "host", "task cpuset_cpus": "0-1", "task cpu_cfs_period": 5000,
	"task devices.host_path": "/dev/null", "task devices.container_path": "/dev/x", "task devices.cgroup_permissions": "rw",
	"task dns_servers": []any{"10.0.0.1"}, "task ipv4_address": "10.0.0.9", "task ipv6_address": "fd00::9", "task mac_address": "02:42:ac:11:00:02",
	"task port_map": []any{map[string]any{"http": 80}}, "task ulimit": []any{map[string]any{"nofile": "1024:2048"}},
	"task mount.type": "volume", "task mount.bind_options.propagation": "rslave", "task volumes": []any{"local/a:/b"}, "task mount.tmpfs_options.mode": 511,
}

// also are keys that another key needs.
var also = map[string]map[string]any{
	"plugin tls.cert": {"tls": map[string]any{"key": "k"}}, "plugin tls.key": {"tls": map[string]any{"cert": "c"}},
	"task ipv4_address": {"network_mode": "n"}, "task ipv6_address": {"network_mode": "n"}, "task network_aliases": {"network_mode": "n"},
	"task devices.container_path":     {"devices": map[string]any{"host_path": "/dev/null"}},
	"task devices.cgroup_permissions": {"devices": map[string]any{"host_path": "/dev/null"}},
}

func valueOf(where, key, kind string) any {
	if v, ok := values[where+" "+key]; ok {
		return v
	}
	switch kind {
	case "string":
		return "x"
	case "bool":
		return true
	case "number":
		return 7
	case "list(string)":
		return []any{"x"}
	case "list(map(string))", "block of attributes":
		return []any{map[string]any{"a": "b"}}
	}
	return []any{map[string]any{}}
}

// put sets a key with dots in it, and keeps what its blocks have.
func put(into map[string]any, key string, value any) {
	head, rest, nested := strings.Cut(key, ".")
	if !nested {
		into[head] = value
		return
	}
	block, _ := into[head].(map[string]any)
	if block == nil {
		block = map[string]any{}
		into[head] = block
	}
	put(block, rest, value)
}

func parse(where string, c map[string]any) error {
	if where == "plugin" {
		_, err := config.ParsePlugin(c)
		return err
	}
	_, err := config.ParseTask(c)
	return err
}

func TestEveryKeyIsDoneOrRefusedByName(t *testing.T) {
	table, err := os.ReadFile("testdata/keys.tsv")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]map[string]bool{"plugin": {}, "task": {}}
	for row := range strings.Lines(string(table)) {
		if strings.HasPrefix(row, "#") {
			continue
		}
		f := strings.Split(strings.TrimSpace(row), "\t")
		where, key, kind, fate := f[0], f[1], f[2], f[3]
		listed[where][key] = true
		c := map[string]any{}
		if where == "task" {
			c["image"] = "x"
		}
		if strings.HasPrefix(key, "mount.") {
			put(c, "mount.target", "/x")
		}
		if strings.HasPrefix(key, "mount.bind_options") {
			put(c, "mount.type", "bind")
			put(c, "mount.source", "/x")
		}
		maps.Copy(c, also[where+" "+key])
		put(c, key, valueOf(where, key, kind))
		switch kind {
		case "block", "list of blocks", "list of blocks (mountBodySpec)":
			continue // its keys have rows
		}
		err := parse(where, c)
		switch {
		case fate == "done" && err != nil:
			t.Errorf("%s %s is refused: %v", where, key, err)
		case fate == "refused" && (!errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), `"`+key+`"`)):
			t.Errorf("%s %s: %v, want an error that names it", where, key, err)
		}
		put(c, key, struct{}{})
		if err := parse(where, c); err == nil {
			t.Errorf("%s %s takes a value of any kind", where, key)
		}
	}
	for where, of := range map[string]reflect.Type{"plugin": reflect.TypeFor[config.Plugin](), "task": reflect.TypeFor[config.Task]()} {
		for _, key := range keys("", of) {
			if !listed[where][key] && !strings.HasPrefix(key, "mounts.") {
				t.Errorf("%s %s is not in the table", where, key)
			}
		}
	}
}

func keys(prefix string, of reflect.Type) (out []string) {
	if of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return nil
	}
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("config"), ",")
		out = append(append(out, prefix+name), keys(prefix+name+".", f.Type)...)
	}
	return out
}

func TestDefaults(t *testing.T) {
	p, err := config.ParsePlugin(nil)
	if err != nil {
		t.Fatal(err)
	}
	if !p.GC.Image || !p.GC.Container || !p.GC.Dangling.Enabled || p.GC.ImageDelay.String() != "3m0s" || p.ExistsAttempts != 5 ||
		p.Logging.Type != "json-file" || p.Logging.Config["max-file"] != "2" || p.AllowPrivileged || p.Volumes.Enabled {
		t.Errorf("defaults are %+v", p)
	}
}

func TestTaskValuesAreChecked(t *testing.T) {
	for key, c := range map[string]map[string]any{
		"image":                          {"image": ""},
		"isolation":                      {"isolation": "hyperv"},
		"ports":                          {"ports": []any{"a"}, "port_map": map[string]any{"a": 1}},
		"port_map":                       {"port_map": map[string]any{"a": "http"}},
		"network_mode":                   {"network_mode": "cni/x"},
		"network_aliases":                {"network_aliases": []any{"a"}},
		"ipv4_address":                   {"ipv4_address": "10.0.0.1"},
		"dns_servers":                    {"dns_servers": []any{"a.b"}},
		"mac_address":                    {"mac_address": "02"},
		"ulimit":                         {"ulimit": map[string]any{"nofile": "a:b"}},
		"cpuset_cpus":                    {"cpuset_cpus": "3-1"},
		"cpu_cfs_period":                 {"cpu_cfs_period": 10},
		"devices":                        {"devices": []any{map[string]any{"host_path": "null"}}},
		"devices.cgroup_permissions":     {"devices": []any{map[string]any{"host_path": "/dev/null", "cgroup_permissions": "x"}}},
		"mount.target":                   {"mount": []any{map[string]any{"type": "tmpfs"}}},
		"mount.type":                     {"mount": []any{map[string]any{"target": "/a", "type": "nfs"}}},
		"mount.source":                   {"mounts": []any{map[string]any{"target": "/a", "type": "bind"}}},
		"mount.bind_options":             {"mount": []any{map[string]any{"target": "/a", "bind_options": map[string]any{"propagation": "rshared"}}}},
		"mount.bind_options.propagation": {"mount": []any{map[string]any{"target": "/a", "source": "/b", "type": "bind", "bind_options": map[string]any{"propagation": "x"}}}},
		"volumes":                        {"volumes": []any{"a:b:c:d"}},
	} {
		if c["image"] == nil {
			c["image"] = "i"
		}
		if _, err := config.ParseTask(c); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), `"`+key+`"`) {
			t.Errorf("%s: %v, want an error that names it", key, err)
		}
	}
}

func task(t *testing.T, c map[string]any) *config.Task {
	t.Helper()
	c["image"] = "i"
	out, err := config.ParseTask(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWhatThePluginPermits(t *testing.T) {
	for _, c := range []struct {
		key          string
		task, plugin map[string]any
	}{
		{"privileged", map[string]any{"privileged": true}, map[string]any{"allow_privileged": true}},
		{"runtime", map[string]any{"runtime": "kata"}, map[string]any{"allow_runtimes": []any{"kata"}}},
		{"pids_limit", map[string]any{"pids_limit": 200}, map[string]any{"pids_limit": 200}},
		{"volume_driver", map[string]any{"volume_driver": "nfs"}, map[string]any{"volumes": map[string]any{"enabled": true}}},
		{"pid_mode", map[string]any{"pid_mode": "host"}, map[string]any{"allowed_modes": map[string]any{"pid": []any{"host"}}}},
		{"ipc_mode", map[string]any{"ipc_mode": "host"}, map[string]any{"allowed_modes": map[string]any{"ipc": []any{"host"}}}},
		{"userns_mode", map[string]any{"userns_mode": "host"}, map[string]any{"allowed_modes": map[string]any{"userns": []any{"host"}}}},
		{"uts_mode", map[string]any{"uts_mode": "host"}, map[string]any{"allowed_modes": map[string]any{"uts": []any{"host"}}}},
		{"cap_add", map[string]any{"cap_add": []any{"CAP_SYS_ADMIN"}}, map[string]any{"allow_caps": []any{"sys_admin"}}},
	} {
		strict, err := config.ParsePlugin(map[string]any{"pids_limit": 100})
		if err != nil {
			t.Fatal(err)
		}
		if err := strict.Allowed(task(t, maps.Clone(c.task))); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), `"`+c.key+`"`) {
			t.Errorf("%s: %v, want an error that names it", c.key, err)
		}
		open, err := config.ParsePlugin(c.plugin)
		if err != nil {
			t.Fatal(err)
		}
		if err := open.Allowed(task(t, maps.Clone(c.task))); err != nil {
			t.Errorf("%s with %v: %v", c.key, c.plugin, err)
		}
	}
}

func TestCapabilities(t *testing.T) {
	for _, c := range []struct {
		allow, add, drop []any
		wantAdd          string
		wantDrop         string
	}{
		{nil, nil, []any{"all"}, "", "ALL"},
		{nil, []any{"chown"}, []any{"ALL"}, "CHOWN", "ALL"},
		{[]any{"chown", "CAP_SYS_ADMIN"}, []any{"sys_admin"}, nil, "CHOWN SYS_ADMIN", "ALL"},
		{[]any{"chown", "kill"}, nil, []any{"kill"}, "CHOWN", "ALL"},
		{[]any{"all"}, []any{"all"}, []any{"net_raw"}, "ALL", "NET_RAW"},
	} {
		block := map[string]any{}
		if c.allow != nil {
			block["allow_caps"] = c.allow
		}
		p, err := config.ParsePlugin(block)
		if err != nil {
			t.Fatal(err)
		}
		add, drop, err := p.Capabilities(task(t, map[string]any{"cap_add": c.add, "cap_drop": c.drop}))
		if err != nil || strings.Join(add, " ") != c.wantAdd || strings.Join(drop, " ") != c.wantDrop {
			t.Errorf("%v: add %v, drop %v, %v", c, add, drop, err)
		}
	}
	p := config.Default()
	add, _, err := p.Capabilities(task(t, map[string]any{}))
	if err != nil || !slices.Contains(add, "NET_RAW") || slices.Contains(add, "SYS_ADMIN") || len(add) != 14 {
		t.Errorf("defaults are %v %v", add, err)
	}
}

func TestLoggingOfTheTaskReplacesThatOfThePlugin(t *testing.T) {
	p, err := config.ParsePlugin(map[string]any{"logging": map[string]any{"type": "local", "config": map[string]any{"a": "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := config.Logging{Type: "local", Config: map[string]string{"a": "b"}}
	if d := cmp.Diff(want, p.EffectiveLogging(task(t, map[string]any{}))); d != "" {
		t.Error(d)
	}
	want = config.Logging{Type: "syslog", Config: map[string]string{"tag": "x"}}
	logging := map[string]any{"driver": "syslog", "type": "json-file", "config": []any{map[string]any{"tag": "x"}}}
	if d := cmp.Diff(want, p.EffectiveLogging(task(t, map[string]any{"logging": logging}))); d != "" {
		t.Error(d)
	}
}
