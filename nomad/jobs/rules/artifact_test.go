package rules_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func TestArtifactsAreNoFilesOfTheNode(t *testing.T) {
	for source, refused := range map[string]bool{
		"file:///etc/passwd": true, "/etc/passwd": true, "./a": true, "../a": true, "git::file:///a": true, "git::/a": true,
		"http://a/file:b": false, "git::https://a/b": false, "github.com/a/b": false, "git@a:b/c": false, "${NOMAD_META_source}": false,
	} {
		j := good(t)
		j.TaskGroups[0].Tasks[0].Artifacts = []*api.TaskArtifact{{GetterSource: source}}
		if err := check(j); (err != nil) != refused || refused && !strings.Contains(err.Error(), "is a file of the node") {
			t.Errorf("source %q: %v", source, err)
		}
	}
}

func TestArtifacts(t *testing.T) {
	for _, c := range []struct{ mode, checksum, want string }{
		{"any", "md5:" + strings.Repeat("0a", 16), ""},
		{"file", "sha1:" + strings.Repeat("0A", 20), ""},
		{"dir", "sha256:" + strings.Repeat("0a", 32), ""},
		{"", "sha512:" + strings.Repeat("0a", 64), ""},
		{"", "file:http://a/sums", ""},
		{"", "${NOMAD_META_sum}", ""},
		{"", "${NOMAD_META_kind}:abcd", ""},
		{"tree", "file:sums", `artifact mode "tree" is not one of any, file, dir`},
		{"", "", `artifact checksum "": has no type`},
		{"", "abcd", `artifact checksum "abcd": has no type`},
		{"", "file:", `artifact checksum "file:": names no file`},
		{"", "crc32:abcd", "the type is not one of md5, sha1, sha256, sha512, file"},
		{"", "sha256:xyz", "the value is not hexadecimal"},
		{"", "sha256:abcd", "the value has 2 bytes, sha256 has 32"},
	} {
		j := good(t)
		j.TaskGroups[0].Tasks[0].Artifacts = []*api.TaskArtifact{{
			GetterSource: "http://a/b", GetterMode: c.mode, GetterOptions: map[string]string{"checksum": c.checksum},
		}}
		switch err := check(j); {
		case c.want == "" && err != nil:
			t.Errorf("mode %q, checksum %q: %v", c.mode, c.checksum, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("mode %q, checksum %q: %v, want %q", c.mode, c.checksum, err, c.want)
		}
	}
}
