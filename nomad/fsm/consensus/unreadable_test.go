package consensus_test

import (
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
)

// unreadable is a command whose entry nobody could read: its decoder leaves a byte over.
type unreadable struct{ mark }

// MarshalMsg implements [msgp.Marshaler].
func (u *unreadable) MarshalMsg(b []byte) ([]byte, error) {
	b, err := u.mark.MarshalMsg(b)
	return append(b, 0xc0), err
}

// TestWhatCannotBeReadDoesNotReachTheRaftLog: a leader refuses it, and goes on.
func TestWhatCannotBeReadDoesNotReachTheRaftLog(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "")
	lead(t, r)
	propose(t, r, "before")
	last := r.LastIndex()
	if _, err := r.Propose(t.Context(), &unreadable{mark{"x"}}); !errors.Is(err, fault.Invalid) {
		t.Errorf("proposed: %v", err)
	}
	if n := r.LastIndex(); n != last {
		t.Fatalf("the log went from %d to %d", last, n)
	}
	propose(t, r, "after")
}
