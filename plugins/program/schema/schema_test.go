package schema_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/program/schema"
)

type config struct {
	Name  string            `config:"name,required"`
	Count int               `config:"count"`
	Ratio float64           `config:"ratio"`
	On    bool              `config:"on"`
	Every time.Duration     `config:"every"`
	List  []string          `config:"list"`
	Map   map[string]string `config:"map"`
	Auth  struct {
		User string `config:"user,required"`
	} `config:"auth"`
	Mounts []struct {
		Path string `config:"path"`
	} `config:"mount"`
}

func TestConfigIsCheckedByTheSchema(t *testing.T) {
	s := schema.Of(config{})
	if err := schema.Check(s); err != nil {
		t.Fatal(err)
	}
	got, err := schema.Decode("x", s, map[string]any{
		"name": "n", "count": "3", "ratio": 1, "on": "false", "every": "90s", "list": []any{"a"}, "map": []any{map[string]any{"k": 1}},
		"auth": []map[string]any{{"user": "u"}}, "mount": []any{map[string]any{"path": "/a"}, map[string]any{}},
	})
	b, _ := json.Marshal(got)
	const want = `{"auth":{"user":"u"},"count":3,"every":"1m30s","list":["a"],"map":{"k":"1"},"mount":[{"path":"/a"},{}],"name":"n","on":false,"ratio":1}`
	if string(b) != want || err != nil {
		t.Errorf("%s %v, want\n%s", b, err, want)
	}
	_, err = schema.Decode("x", s, map[string]any{"count": "many", "auth": map[string]any{"pass": "p"}, "mount": "x", "other": 1})
	for _, want := range []string{`"name" is required`, `"count"`, `"auth.user" is required`, `"auth.pass" is not known`, `"mount" must be a block`, `"other" is not known`} {
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, bad := range []*schema.Attribute{
		{Name: "", Type: schema.Type_TYPE_STRING}, {Name: `a"b`, Type: schema.Type_TYPE_STRING}, {Name: "a", Type: 99}, {Name: "name", Type: schema.Type_TYPE_STRING},
	} {
		with := &schema.Schema{Attributes: append([]*schema.Attribute{bad}, s.GetAttributes()...)}
		if err := schema.Check(with); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
	deep := &schema.Schema{}
	for range 20 {
		deep = &schema.Schema{Attributes: []*schema.Attribute{{Name: "a", Type: schema.Type_TYPE_BLOCK, Block: deep}}}
	}
	if err := schema.Check(deep); err == nil {
		t.Error("a deep schema is accepted")
	}
}
