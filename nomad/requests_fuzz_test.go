package nomad_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api/shape"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad"
)

// FuzzMethods reads any bytes as the request of any method: what is taken can be said in JSON.
func FuzzMethods(f *testing.F) {
	s, err := nomad.New(nomad.Config{Name: "s", Region: "global", Datacenter: "dc1", Bind: "127.0.0.1:0", Log: hclog.NewNullLogger()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	all := s.Methods()
	slices.SortFunc(all, func(a, b wire.Handler) int { return strings.Compare(a.Name, b.Name) })
	for i, h := range all {
		for depth := range 4 {
			req := h.New()
			filled(reflect.ValueOf(req).Elem(), "", depth, false)
			body, err := req.(msgp.Marshaler).MarshalMsg(nil)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(uint16(i), body)
		}
	}
	f.Fuzz(func(t *testing.T, i uint16, body []byte) {
		h := all[int(i)%len(all)]
		req := h.New()
		if _, err := req.(msgp.Unmarshaler).UnmarshalMsg(body); err != nil || shape.Input(req) != nil {
			return
		}
		if _, err := json.Marshal(req); err != nil {
			t.Errorf("%s takes what JSON cannot say: %v", h.Name, err)
		}
	})
}
