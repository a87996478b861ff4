package config_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/config"
)

// unshown are the fields of the configuration that are told to nobody who asks for the agent's, and why.
var unshown = map[string]string{
	"Server.Encrypt":          "a key",
	"Server.FenceHook":        "clients know no such key",
	"Server.Scheduler":        "the servers' is at /v1/operator/scheduler/configuration",
	"ACL.ReplicationToken":    "a secret",
	"Client.IntroToken":       "a secret",
	"Warnings":                "they are in the log",
	"Again":                   "no value",
	"Telemetry.CirconusToken": "a secret",
}

// Every field of the configuration changes what is shown of it, or is on the list of those that do not.
func TestEveryFieldIsShownOrSaidToBeHidden(t *testing.T) {
	t.Parallel()
	shown := func(c *config.Config) string {
		text, err := json.Marshal(c.Shown())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var walk func(path string, change func(*config.Config) reflect.Value, kind reflect.Type)
	walk = func(path string, field func(*config.Config) reflect.Value, kind reflect.Type) {
		if _, hidden := unshown[path]; hidden {
			return
		}
		if kind.Kind() == reflect.Struct {
			for i := range kind.NumField() {
				name := strings.TrimPrefix(path+"."+kind.Field(i).Name, ".")
				walk(name, func(c *config.Config) reflect.Value { return field(c).Field(i) }, kind.Field(i).Type)
			}
			return
		}
		one, other := config.Default(), config.Default()
		if !fill(field(one), 1) || !fill(field(other), 2) {
			t.Errorf("%s: no values of %s are known", path, kind)
			return
		}
		if shown(one) == shown(other) {
			t.Errorf("%s is not shown, nor said to be hidden", path)
		}
	}
	walk("", func(c *config.Config) reflect.Value { return reflect.ValueOf(c).Elem() }, reflect.TypeFor[config.Config]())
}

// fill sets a value, the n-th of its kind.
func fill(v reflect.Value, n int) bool {
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat("x", n))
	case reflect.Bool:
		v.SetBool(n == 1)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(n))
	case reflect.Float64:
		v.SetFloat(float64(n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), n, n))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(strings.Repeat("x", n)), reflect.Zero(v.Type().Elem()))
	case reflect.Struct:
		return fill(v.Field(0), n)
	default:
		return false
	}
	return true
}

func TestNothingSecretIsShown(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Server.Encrypt = "gossip-hunter2"
	c.Plugins = map[string]config.Plugin{"raw_exec": {Config: map[string]any{"password": "plugin-hunter2"}}}
	c.HTTPHeaders = map[string]string{"Authorization": "header-hunter2", "X-Frame-Options": "DENY"}
	text, err := json.Marshal(c.Shown())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "hunter2") || !strings.Contains(string(text), "DENY") {
		t.Errorf("shown is %s", text)
	}
}
