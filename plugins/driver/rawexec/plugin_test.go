package rawexec_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
)

func TestPluginBlock(t *testing.T) {
	got, err := rawexec.ParseConfig(map[string]any{
		"enabled": true, "no_cgroups": true, "denied_envvars": []any{"FOO_*", "BAR"}, "denied_host_uids": "0, 100-200", "denied_host_gids": "5",
	})
	want := rawexec.Config{
		Enabled: true, NoCgroups: true, DeniedEnvvars: []string{"FOO_*", "BAR"},
		DeniedUIDs: []rawexec.IDs{{First: 0, Last: 0}, {First: 100, Last: 200}}, DeniedGIDs: []rawexec.IDs{{First: 5, Last: 5}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, error %v", got, err)
	}
	for key, value := range map[string]any{
		"nonsense": 1, "enabled": "perhaps", "denied_envvars": []any{"A=B"}, "denied_host_uids": "root", "denied_host_gids": "9-1", "no_cgroups": []any{},
	} {
		if _, err := rawexec.ParseConfig(map[string]any{"enabled": true, key: value}); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s = %v: error %v", key, value, err)
		}
	}
	for _, ids := range []string{"1-", "-1", "1-2-3", ",", "4294967296"} {
		if _, err := rawexec.ParseConfig(map[string]any{"denied_host_uids": ids}); !errors.Is(err, fault.Invalid) {
			t.Errorf("ids %q: error %v", ids, err)
		}
	}
}

func TestDeniedUsersRunNothing(t *testing.T) {
	d := newDriver(t, t.TempDir(), func(c *rawexec.Config) {
		c.DeniedUIDs, c.DeniedGIDs = []rawexec.IDs{{First: 0, Last: 10}}, []rawexec.IDs{{First: 65534, Last: 65534}}
	})
	for _, user := range []string{"", "root", "daemon", "nobody"} {
		_, err := d.Start(bounded(t), &driver.Task{ID: "a/t/" + user, Name: "t", Dir: t.TempDir(), User: user, Config: sh("exit 0")})
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), `"denied_host_`) {
			t.Errorf("user %q: error %v", user, err)
			_ = d.Stop(bounded(t), "a/t/"+user, "", time.Second)
		}
	}
}
