package state

import (
	"reflect"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/apitest"
	"github.com/open-nomad/open-nomad/api/mask"
)

// Jobs are shown to all who may read them as they were registered; all other rows lose the fields of the list.
func TestRedactedSnapshotsHaveNoSecrets(t *testing.T) {
	for _, l := range tables {
		row := apitest.Full(l.fresh())
		want := mask.RedactedValue(row)
		switch row.(type) {
		case *api.Job, *api.Allocation, *submission:
			want = row
		}
		if !reflect.DeepEqual(redacted(row), want) {
			t.Errorf("table %s: a redacted snapshot has another row than it should", l.name)
		}
	}
}
