package volumes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// A file system that was shut down at the end of a lease is still there while somebody has files of it: mounted again it is
// the same one, which takes no write and answers statfs. It is no volume until they have gone.
func TestFileSystemThatWasShutDownIsNotUsed(t *testing.T) {
	inVirtualTime(t, fake.Config{PublishStaging: true}, func(t *testing.T, v *virtual) {
		at := v.up(workload("w"))["a"].Source
		m := v.on(at)
		letGo := v.host.Hold(m.Dev)
		if err := v.host.ShutDown(m); err != nil {
			t.Fatal(err)
		}
		v.down("w")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := v.svc.Up(ctx, workload("next")); err == nil || !strings.Contains(err.Error(), "it was shut down") {
			t.Fatalf("up on what was shut down: %v", err)
		}
		letGo()
		stages := v.count("NodeStageVolume")
		v.up(workload("next"))
		if v.count("NodeStageVolume") == stages {
			t.Error("it was not staged anew")
		}
		v.down("next")
		v.clean()
	})
}
