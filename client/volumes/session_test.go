package volumes_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// Many drivers mount nothing at the staging path: they open a session, or a device. The mount table says nothing of
// their unstage, and a volume that is detached below an open session loses what was not written yet.
func TestUnstageOfWhatIsNoMountIsOverWhenTheDriverSaysSo(t *testing.T) {
	for _, code := range []codes.Code{codes.Internal, codes.Unknown, codes.FailedPrecondition} {
		t.Run(code.String(), func(t *testing.T) {
			inVirtualTime(t, fake.Config{NoMountAtStaging: true}, func(t *testing.T, v *virtual) {
				v.up(workload("w"))
				v.driver.Script(fake.Fault{RPC: "NodeUnstageVolume", Times: 2, Code: code, Text: "the session is busy"})
				if err := v.svc.Down(t.Context(), "w"); err == nil {
					t.Error("it is taken for over")
				}
				v.untilReleased("w")
				if n := v.count("NodeUnstageVolume"); n != 3 {
					t.Errorf("%d unstages", n)
				}
				v.clean()
			})
		})
	}
}

// A driver that has unmounted the staging and fails at what is below it, such as a device to close, is asked again,
// and not for ever: others fail at each unstage of what is gone.
func TestUnstageThatFailsBelowTheMountIsRepeatedAFewTimes(t *testing.T) {
	for name, fails := range map[string]int{"for a while": 2, "always": 0} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
				v.up(workload("w"))
				v.driver.Script(fake.Fault{RPC: "NodeUnstageVolume", Times: fails, Late: true, Code: codes.Internal, Text: "the device is busy"})
				begin := time.Now()
				if err := v.svc.Down(t.Context(), "w"); err == nil {
					t.Error("it is taken for over")
				}
				v.untilReleased("w")
				if n := v.count("NodeUnstageVolume"); n != 3 {
					t.Errorf("%d unstages", n)
				}
				if took := time.Since(begin); took > 10*time.Second {
					t.Errorf("it took %s", took)
				}
				v.clean()
			})
		})
	}
}

// What the plugin cannot end is given up, and said.
func TestSessionThatIsNeverClosedIsGivenUp(t *testing.T) {
	inVirtualTime(t, fake.Config{NoMountAtStaging: true}, func(t *testing.T, v *virtual) {
		v.up(workload("w"))
		v.driver.Script(fake.Fault{RPC: "NodeUnstageVolume", Code: codes.Internal, Text: "the session is busy"})
		begin := time.Now()
		_ = v.svc.Down(t.Context(), "w")
		v.untilReleased("w")
		if took := time.Since(begin); took < time.Minute {
			t.Errorf("given up after %s", took)
		}
		if !v.event("Unmounted in the plugin's stead") {
			t.Error("nobody is told")
		}
	})
}

// No session outlives a boot, and drivers may fail at what they do not know any more.
func TestSessionOfAnEarlierBootIsNotWaitedFor(t *testing.T) {
	inVirtualTime(t, fake.Config{NoMountAtStaging: true}, func(t *testing.T, v *virtual) {
		v.up(workload("w"))
		v.stop()
		v.host.Reboot()
		v.driver.Script(fake.Fault{RPC: "NodeUnstageVolume", Code: codes.Internal, Text: "no such session"})
		v.start()
		begin := time.Now()
		_ = v.svc.Down(t.Context(), "w")
		v.untilReleased("w")
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// What a driver opened without a mount is gone with the boot, and the mount table does not tell.
func TestStagingWithoutAMountIsMadeAgainAfterABoot(t *testing.T) {
	inVirtualTime(t, fake.Config{NoMountAtStaging: true}, func(t *testing.T, v *virtual) {
		v.up(workload("w"))
		v.stop()
		v.host.Reboot()
		v.start()
		v.up(workload("w"))
		if n := v.count("NodeStageVolume"); n != 2 {
			t.Errorf("staged %d times in two boots", n)
		}
	})
}
