package volumes_test

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// forgotten reports whether the journal is empty.
func (v *virtual) forgotten() bool {
	rows, _ := v.journal.All()
	return len(rows) == 0
}

// A driver may close a session and fail to say so. The next user must not believe that it is open.
func TestSessionThatMayBeClosedIsOpenedAgain(t *testing.T) {
	inVirtualTime(t, fake.Config{NoMountAtStaging: true}, func(t *testing.T, v *virtual) {
		v.up(workload("w"))
		v.driver.Script(fake.Fault{RPC: "NodeUnstageVolume", Times: 1, Code: codes.Internal, Late: true})
		if err := v.svc.Down(t.Context(), "w"); err == nil {
			t.Fatal("the unstage succeeds")
		}
		v.up(workload("next"))
		v.untilReleased("w")
		v.down("next")
		v.clean()
	})
}
