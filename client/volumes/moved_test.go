package volumes_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// moves renames the state directory while the agent does not run. What is mounted below it goes along.
func (v *virtual) moves() {
	v.stop()
	v.host.Move(v.conf.StateDir, "/elsewhere"+v.conf.StateDir)
	v.conf.StateDir = "/elsewhere" + v.conf.StateDir
	v.start()
}

func TestMountsBelowARenamedDirectoryAreAdopted(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		w := workload("w")
		at := v.up(w)["a"].Source
		v.moves()
		v.knows(w)
		if now := v.up(w)["a"].Source; now != "/elsewhere"+at || v.on(now) == nil {
			t.Errorf("it is said to be mounted at %s", now)
		}
		if n := v.count("NodePublishVolume"); n != 1 {
			t.Errorf("published %d times", n)
		}
		if table, _ := v.host.Table(); len(table) != 2 {
			t.Errorf("%d mounts", len(table))
		}
	})
}

func TestMountBelowARenamedDirectoryIsNotReleased(t *testing.T) {
	inVirtualTime(t, fake.Config{NoStage: true}, func(t *testing.T, v *virtual) {
		over := workload("over")
		v.up(over)
		v.moves()
		v.knows(over)
		v.down("over")
		if table, _ := v.host.Table(); len(table) != 0 {
			t.Errorf("%s is mounted, and released", table[0].Point)
		}
		if !v.forgotten() {
			t.Error("the journal has it still")
		}
	})
}
