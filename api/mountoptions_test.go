package api

import (
	"testing"

	"github.com/open-nomad/open-nomad/api/apitest"
)

func TestEveryFieldOfMountOptionsMakesThemOthers(t *testing.T) {
	for _, f := range apitest.Fields(&MountOptions{}) {
		o := &MountOptions{}
		if f.Set(o); o.Equal(&MountOptions{}) || (&MountOptions{}).Equal(o) {
			t.Errorf("%s is not compared", f.Path)
		}
		if o.SameFileSystem(apitest.Full(&MountOptions{})) {
			t.Errorf("%s is none of the file system", f.Path)
		}
	}
}
