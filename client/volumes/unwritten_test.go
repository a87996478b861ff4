package volumes_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// Volumes are taken down without a disk, so that what is on disk may tell of a session that was closed since. The next agent
// process believes in one only while somebody has something mounted of it.
func TestSessionThatWasClosedWithoutADiskIsOpenedAgain(t *testing.T) {
	for name, stays := range map[string]bool{"nobody has it": false, "somebody has it": true} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{NoMountAtStaging: true}, func(t *testing.T, v *virtual) {
				v.stop()
				disk := &failing{bucket: v.journal}
				v.conf.Journal = disk
				v.start()
				over, w := workload("over"), workload("w")
				v.up(over)
				stages := 2
				if stays {
					v.up(w)
					stages = 1
				}
				disk.down.Store(true)
				v.down("over")
				v.stop()
				disk.down.Store(false)
				v.start()
				v.knows(over, w)
				v.up(workload("next"))
				if n := v.count("NodeStageVolume"); n != stages {
					t.Errorf("the session was opened %d times, want %d", n, stages)
				}
				v.down("over")
				v.down("next")
				v.down("w")
				v.clean()
			})
		})
	}
}
