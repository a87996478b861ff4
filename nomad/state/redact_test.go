package state

import (
	"reflect"
	"regexp"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/apitest"
)

// No table keeps a secret in a redacted snapshot.
func TestRedactedSnapshotsHaveNoSecrets(t *testing.T) {
	secret := regexp.MustCompile(`Secrets\[|SecretID|ClientSecret|PemKey$|Wrapped|PublishContext|MountFlags|Data$|Lock\.ID`)
	for _, l := range tables {
		switch l.fresh().(type) {
		case *api.Job, *api.Allocation: // jobs are shown to everybody as they were asked for
			continue
		}
		row := apitest.Full(l.fresh())
		for _, f := range apitest.Fields(l.fresh()) {
			if v := f.Get(redacted(row)); secret.MatchString(f.Path) && v != nil && reflect.DeepEqual(v, f.Get(row)) {
				t.Errorf("table %s: %s is in the snapshot", l.name, f.Path)
			}
		}
	}
}
