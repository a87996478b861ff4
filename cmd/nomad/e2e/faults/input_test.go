package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestFault14HostileRequests(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1, true)
	b.volume("v1", nil)
	spec := func(field, value string) string {
		fields := map[string]json.RawMessage{
			"ID": []byte(`"x"`), "Name": []byte(`"x"`), "Namespace": []byte(`"default"`), "PluginID": []byte(`"hp"`),
			"RequestedCapabilities": []byte(`[{"AccessMode":"single-node-writer","AttachmentMode":"file-system"}]`),
		}
		fields[field] = []byte(value)
		raw, err := json.Marshal(map[string]any{"Volumes": []any{fields}})
		if err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		return string(raw)
	}
	var bodies []string
	for _, whole := range []string{
		``, `null`, `[]`, `{}`, `"x"`, `7`, `{"Volumes":null}`, `{"Volumes":[]}`, `{"Volumes":[null]}`, `{"Volumes":{}}`, `{"Volumes":[[]]}`, `{"Volumes":[{}]}`, `{`,
	} {
		bodies = append(bodies, whole)
	}
	for field, values := range map[string][]string{
		"ID":                    {`null`, `7`, `""`, `"a/b"`, `".."`, `"a\u0000b"`, `"` + strings.Repeat("x", 1<<16) + `"`},
		"Name":                  {`7`, `"a\u0000b"`},
		"Namespace":             {`"nowhere"`, `7`, `"a\u0000b"`},
		"PluginID":              {`""`, `"nobody"`, `7`, `"a\u0000b"`},
		"RequestedCapacityMin":  {`-1`, `"x"`, `1e30`, `9223372036854775808`},
		"RequestedCapacityMax":  {`-1`, `"x"`},
		"RequestedCapabilities": {`null`, `[]`, `[null]`, `[{}]`, `[{"AccessMode":"x","AttachmentMode":"y"}]`, `7`},
		"Parameters":            {`7`, `[]`, `{"a":7}`},
		"Secrets":               {`7`, `[]`},
		"MountOptions":          {`7`, `[]`},
		"RequestedTopologies":   {`7`, `[null]`},
		"CloneID":               {`7`, `"nothing"`},
		"SnapshotID":            {`7`, `"nothing"`},
		"Context":               {`7`, `[]`},
	} {
		for _, v := range values {
			bodies = append(bodies, spec(field, v))
		}
	}
	bad := 0
	for _, way := range []string{"create", ""} {
		path := strings.TrimSuffix("/v1/volume/csi/x/"+way, "/")
		for _, body := range bodies {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, b.API.Address()+path, bytes.NewBufferString(body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Errorf("%s %.200s: %v", path, body, err)
				bad++
				continue
			}
			var text bytes.Buffer
			_, _ = text.ReadFrom(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode/100 != 4 {
				t.Errorf("%s %.200s: %d %.300s", path, body, resp.StatusCode, text.String())
				bad++
			}
			if resp.StatusCode/100 == 5 {
				t.Errorf("%s %.200s: %d %.300s", path, body, resp.StatusCode, text.String())
				bad++
			}
			if resp.StatusCode == http.StatusOK {
				_, _ = b.Run("volume", "delete", "x")
				_, _ = b.Run("volume", "deregister", "x")
			}
		}
	}
	if !b.Alive() {
		t.Fatal("the server died")
	}
	b.row(14, fmt.Sprintf("%d malformed requests", 2*len(bodies)), fmt.Sprintf("%d wrong answers", bad), "4xx with the reason; never a crash")
}
