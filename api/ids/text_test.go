package ids_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api/ids"
)

func TestTextThatSteersTerminalsIsRefused(t *testing.T) {
	for _, r := range "\x00\t\n\x1b\x1f\x7f\u0080\u009b\u202a\u202e\u2066\u2069" {
		err := ids.CheckText("job ID", "a"+string(r)+"b")
		if err == nil || !strings.HasPrefix(err.Error(), `job ID "a\`) {
			t.Errorf("%U: %v", r, err)
		}
		if ids.Wrong("a"+string(r)) == "" {
			t.Errorf("%U in an id is accepted", r)
		}
	}
	if err := ids.CheckText("meta key", "a\u202eb"); err == nil || !strings.Contains(err.Error(), "the character U+202E") {
		t.Error(err)
	}
	if err := ids.CheckText("name", "a\xff"); err == nil || !strings.Contains(err.Error(), "is not UTF-8") {
		t.Error(err)
	}
	for _, text := range []string{"", "web-1", "größe", "日本", "שלום", "a b", "👍", "a\u200db"} {
		if err := ids.CheckText("name", text); err != nil {
			t.Error(err)
		}
	}
}
