package volumes_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// rig is the bed of these tests with what only they need.
type rig struct{ *volumestest.Rig }

func newRig(t *testing.T, change ...func(*reconciler.Limits)) *rig {
	t.Helper()
	return &rig{volumestest.New(t, change...)}
}

// forAnAnswer has callers wait for the end of an operation.
func forAnAnswer(l *reconciler.Limits) { l.Patience = 30 * time.Second }

const writer = api.AccessSingleNodeWriter
