package rules

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/lazy"
)

// digestSizes are the bytes of a checksum by its type.
var digestSizes = map[string]int{"md5": 16, "sha1": 20, "sha256": 32, "sha512": 64}

// localSource matches sources that are files of the node.
var localSource = lazy.Regexp(`^([A-Za-z0-9]+::)?(file:|\.{0,2}/)`)

func (c *check) artifacts(where string, all []*api.TaskArtifact) {
	for _, a := range all {
		c.wrong(a.GetterSource == "", "%s: an artifact has no source", where)
		c.wrong(localSource().MatchString(a.GetterSource), "%s: artifact source %q is a file of the node: use http, https, git, hg, s3 or gcs", where, brief(a.GetterSource))
		c.wrong(outside(a.RelativeDest), "%s: artifact destination %q is outside of the allocation", where, a.RelativeDest)
		if a.GetterMode != "" {
			c.oneOf(a.GetterMode, []string{"any", "file", "dir"}, "%s: artifact mode", where)
		}
		if sum, ok := a.GetterOptions["checksum"]; ok {
			if err := checksumError(sum); err != nil {
				c.wrong(true, "%s: artifact checksum %q: %w", where, brief(sum), err)
			}
		}
	}
}

// checksumError returns why a checksum cannot be compared with a download, or nil. Variables are known on the node only.
func checksumError(sum string) error {
	if strings.Contains(sum, "${") {
		return nil
	}
	kind, value, ok := strings.Cut(sum, ":")
	if !ok {
		return errors.New("has no type: write type:value, such as sha256:…")
	}
	if kind == "file" {
		if value == "" {
			return errors.New("names no file")
		}
		return nil
	}
	size, ok := digestSizes[kind]
	if !ok {
		return errors.New("the type is not one of md5, sha1, sha256, sha512, file")
	}
	b, err := hex.DecodeString(value)
	if err != nil {
		return errors.New("the value is not hexadecimal")
	}
	if len(b) != size {
		return fmt.Errorf("the value has %d bytes, %s has %d", len(b), kind, size)
	}
	return nil
}
