package fileowner_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/internal/fileowner"
)

func TestParse(t *testing.T) {
	t.Parallel()
	if o, err := fileowner.Parse("1000:0"); err != nil || o != (fileowner.Owner{UID: 1000}) {
		t.Errorf("%v %v", o, err)
	}
	for _, bad := range []string{"", "1000", "1000:", ":1", "web:web", "1:2:3", "-1:0", "4294967295:0", "0:4294967295", "1: 2"} {
		if o, err := fileowner.Parse(bad); err == nil {
			t.Errorf("%q is read as %v", bad, o)
		}
	}
}
