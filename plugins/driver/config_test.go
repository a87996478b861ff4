package driver_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

type sampleConfig struct {
	Command string            `config:"command,required"`
	Args    []string          `config:"args"`
	Count   int               `config:"count"`
	Ratio   float64           `config:"ratio"`
	Wait    time.Duration     `config:"wait"`
	On      bool              `config:"on"`
	Labels  map[string]string `config:"labels"`
}

func TestDecodeConfigConvertsAsJobFilesDo(t *testing.T) {
	var got sampleConfig
	err := driver.DecodeConfig("x", map[string]any{
		"command": 8.0, "args": []any{"a", 1.5, true, 3}, "count": "7", "ratio": 2, "wait": "5s", "on": "true",
		"labels": []any{map[string]any{"a": "1"}, map[string]any{"b": 2}},
	}, &got)
	if err != nil {
		t.Fatal(err)
	}
	want := sampleConfig{
		Command: "8", Args: []string{"a", "1.5", "true", "3"}, Count: 7, Ratio: 2,
		Wait: 5 * time.Second, On: true, Labels: map[string]string{"a": "1", "b": "2"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

func TestDecodeConfigNamesEveryBadKey(t *testing.T) {
	var got sampleConfig
	err := driver.DecodeConfig("x", map[string]any{
		"args": "one", "count": 1.5, "on": 3, "labels": []any{"z"}, "wait": []any{}, "ratio": "much", "colour": "red",
	}, &got)
	if !errors.Is(err, fault.Invalid) {
		t.Fatalf("class of %v", err)
	}
	for _, key := range []string{"command", "args", "count", "on", "labels", "wait", "ratio", "colour"} {
		if !strings.Contains(err.Error(), `"`+key+`"`) {
			t.Errorf("%v does not name %s", err, key)
		}
	}
}

type blockConfig struct {
	Limits struct {
		Size int  `config:"size"`
		Kept bool `config:"kept"`
	} `config:"limits"`
	Mounts []struct {
		Target  string `config:"target"`
		Options struct {
			Mode string `config:"mode"`
		} `config:"options"`
	} `config:"mount"`
}

func TestDecodeConfigReadsBlocks(t *testing.T) {
	for name, list := range map[string]any{
		"any":  []any{map[string]any{"target": "/a"}, map[string]any{"target": "/b", "options": []any{map[string]any{"mode": 7.0}}}},
		"maps": []map[string]any{{"target": "/a"}, {"target": "/b", "options": map[string]any{"mode": "7"}}},
	} {
		var got blockConfig
		got.Limits.Kept = true
		if err := driver.DecodeConfig("x", map[string]any{"limits": map[string]any{"size": 3}, "mount": list}, &got); err != nil {
			t.Fatal(name, err)
		}
		if got.Limits.Size != 3 || !got.Limits.Kept || len(got.Mounts) != 2 || got.Mounts[0].Target != "/a" || got.Mounts[1].Options.Mode != "7" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestDecodeConfigNamesBadKeysInBlocks(t *testing.T) {
	for text, config := range map[string]map[string]any{
		`"limits.size" must be a whole number`:   {"limits": map[string]any{"size": "big"}},
		`"limits" may be given once`:             {"limits": []any{map[string]any{}, map[string]any{}}},
		`"limits" must be a block, not a number`: {"limits": 3.0},
		`"mount.options.colour" is not known`:    {"mount": []any{map[string]any{"options": map[string]any{"colour": 1}}}},
		`"mount" must be a block, not "x"`:       {"mount": []any{"x"}},
	} {
		var got blockConfig
		err := driver.DecodeConfig("x", config, &got)
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %s", err, text)
		}
	}
}

func FuzzDecodeConfigNumber(f *testing.F) {
	f.Add("1e400", 9e18)
	f.Add("NaN", -1.0)
	f.Fuzz(func(t *testing.T, s string, n float64) {
		var got sampleConfig
		_ = driver.DecodeConfig("x", map[string]any{"command": s, "count": s, "wait": n, "ratio": s}, &got)
		_ = driver.DecodeConfig("x", map[string]any{"command": n, "count": n, "wait": s, "ratio": n}, &got)
	})
}

func TestParseSignal(t *testing.T) {
	for _, name := range driver.SignalNames() {
		if _, err := driver.ParseSignal(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "INT", "9", "SIGWHAT", "sigint"} {
		if _, err := driver.ParseSignal(name); !errors.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
