package row_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/apitest"
	"github.com/open-nomad/open-nomad/nomad/allocs/row"
)

func TestEveryFieldOfARowIsFilled(t *testing.T) {
	r := row.Of(apitest.Full(&api.Allocation{}))
	for _, f := range apitest.Fields(&api.AllocStub{}, "AllocatedResources") { // only where they are asked for
		if v := f.Get(r); v != f.Get(apitest.Full(&api.AllocStub{})) {
			t.Errorf("%s is %v", f.Path, v)
		}
	}
}
