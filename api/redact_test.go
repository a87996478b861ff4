package api

import (
	"reflect"
	"regexp"
	"testing"

	"github.com/open-nomad/open-nomad/api/apitest"
)

var secretFields = regexp.MustCompile(`Secrets\[|SecretID|PublishContext|MountFlags`)

// A secret that comes to a type has to be taken out of its redacted copy, and nothing else.
func TestRedactedCopiesLackTheSecretsOnly(t *testing.T) {
	check := func(full, redacted any) {
		for _, f := range apitest.Fields(full) {
			was, is := f.Get(full), f.Get(redacted)
			if secret := secretFields.MatchString(f.Path); secret && (is == was && is != nil) {
				t.Errorf("%T: %s is in the copy", full, f.Path)
			} else if !secret && !reflect.DeepEqual(was, is) {
				t.Errorf("%T: %s is %v in the copy", full, f.Path, is)
			}
		}
	}
	check(apitest.Full(&Node{}), apitest.Full(&Node{}).Redacted())
	check(apitest.Full(&VolumeSpec{}), apitest.Full(&VolumeSpec{}).Redacted())
	check(apitest.Full(&Volume{}), apitest.Full(&Volume{}).Redacted())
	check(apitest.Full(&VolumeAttachment{}), apitest.Full(&VolumeAttachment{}).Redacted())
}
