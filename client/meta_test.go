package client_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

func TestDynamicMetadataOutlivesTheAgent(t *testing.T) {
	b, s := withIssuer(t)
	b.conf.Meta = map[string]string{"rack": "r1", "zone": "a"}
	b.start(t)
	shown := func(want map[string]string) func() bool {
		return func() bool { return s.registered.Node != nil && maps.Equal(s.registered.Node.Meta, want) }
	}
	b.until(t, "the static metadata is registered", shown(map[string]string{"rack": "r1", "zone": "a"}))
	out, err := call(t, b.servers, wire.ClientNodeMetaApply, &api.NodeMetaApplyRequest{Set: map[string]string{"color": "red", "zone": "b"}, Unset: []string{"rack", "none"}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"color": "red", "zone": "b"}
	if !maps.Equal(out.Meta, want) || len(out.Dynamic) != 3 || out.Static["rack"] != "r1" {
		t.Errorf("the metadata is %+v", out)
	}
	b.until(t, "the change is registered", shown(want))
	b.stop()
	b.edit(func() { s.registered = api.NodeRegisterRequest{} })
	b.start(t)
	b.until(t, "the restarted agent has the change", shown(want))
	if _, err := call(t, b.servers, wire.ClientNodeMetaApply, &api.NodeMetaApplyRequest{Unset: []string{"color"}}); err != nil {
		t.Fatal(err)
	}
	b.until(t, "a key is removed", shown(map[string]string{"zone": "b"}))
}

func TestMetadataThatIsRefused(t *testing.T) {
	b, _ := withIssuer(t)
	b.start(t)
	for name, x := range map[string]struct {
		set   map[string]string
		class fault.Class
	}{
		"nothing": {nil, fault.Invalid}, "an empty key": {map[string]string{"": "x"}, fault.Invalid}, "a key with a space": {map[string]string{"a b": "x"}, fault.Invalid},
		"a control character": {map[string]string{"k": "a\x00b"}, fault.Invalid}, "a long value": {map[string]string{"k": strings.Repeat("x", 70<<10)}, fault.TooLarge},
	} {
		if _, err := call(t, b.servers, wire.ClientNodeMetaApply, &api.NodeMetaApplyRequest{Set: x.set}); fault.Of(err) != x.class {
			t.Errorf("%s: %v", name, err)
		}
	}
	if out, err := call(t, b.servers, wire.ClientNodeMeta, &api.NodeRequest{}); err != nil || len(out.Dynamic) != 0 {
		t.Errorf("after refusals: %+v %v", out, err)
	}
}
