package volumes

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func TestTextThatSteersTerminalsIsRefused(t *testing.T) {
	t.Parallel()
	err := validate(&api.VolumeSpec{ID: "v", Name: "a\u202eb", PluginID: "p", ExternalID: "\x1b", Namespace: "default"})
	for _, want := range []string{`name "a\u202eb" contains the character U+202E`, `external_id "\x1b" contains the character U+001B`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
