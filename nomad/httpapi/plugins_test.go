package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestPluginListsAreNeverNull: an unknown type is the caller's fault, and no plugins are an empty list.
func TestPluginListsAreNeverNull(t *testing.T) {
	h := handler(newCluster())
	expect(t, send(h, "GET", "/v1/plugins?type=x", ""), http.StatusBadRequest, `no plugins of type "x"`)
	for _, target := range []string{"/v1/plugins", "/v1/plugins?type=csi"} {
		w := send(h, "GET", target, "")
		if body := strings.TrimSpace(w.Body.String()); w.Code != http.StatusOK || body != "[]" {
			t.Errorf("%s: %d %s", target, w.Code, body)
		}
	}
}
