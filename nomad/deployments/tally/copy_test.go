package tally_test

import (
	"reflect"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/apitest"
	"github.com/open-nomad/open-nomad/nomad/deployments/tally"
)

func TestCopyHasEverythingAndSharesNoCount(t *testing.T) {
	d := apitest.Full(&api.Deployment{})
	c := tally.Copy(d)
	if !reflect.DeepEqual(c, d) {
		t.Fatalf("the copy of %+v is %+v", d, c)
	}
	for _, f := range apitest.Fields(d, "TaskGroups[].PlacedCanaries[]") {
		if f.Set(c); f.Get(d) == f.Get(c) {
			t.Errorf("%s of the copy is that of the original", f.Path)
		}
	}
}
