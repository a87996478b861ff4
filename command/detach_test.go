package command_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// TestVolumesOfADriverAreDetached: one command for all that a driver which is gone has attached.
func TestVolumesOfADriverAreDetached(t *testing.T) {
	for args, want := range map[string]string{} {
		a := newAgent(t, map[string]any{
			"GET /v1/nodes": []*api.NodeStub{{ID: "n1-a"}}, "GET /v1/volumes/attachments": []*api.AttachmentStub{}, "DELETE /v1/volumes/attachments": "",
		})
		code := 0
		if want == "" {
			code = 1
		}
		run(t, a, "", append([]string{"volume", "detach"}, strings.Fields(args)...)...).want(t, code, "")
		if asked := strings.Join(a.asked, "\n"); !strings.Contains(asked, want) || want == "" && strings.Contains(asked, "DELETE") {
			t.Errorf("%s: asked %s", args, asked)
		}
	}
}
