package fingerprint

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/apitest"
)

func TestEveryFieldOfADriverButItsTimeIsNews(t *testing.T) {
	for _, f := range apitest.Fields(&api.DriverInfo{}, "UpdateTime") {
		i := clone(apitest.Full(&api.DriverInfo{}))
		if f.Set(i); sameHealth(i, apitest.Full(&api.DriverInfo{})) {
			t.Errorf("%s is not compared", f.Path)
		}
	}
}
