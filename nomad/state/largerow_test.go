package state_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// A snapshot that nobody can read takes the log along; without one the log stays.
func TestARowThatCannotBeReadBackIsNotWritten(t *testing.T) {
	if testing.Short() {
		t.Skip("needs 1 GB")
	}
	s := state.New()
	text := strings.Repeat("x", 1<<20)
	n := &api.Node{ID: "n", Attributes: map[string]string{}}
	for i := range 257 {
		n.Attributes[text[:i]] = text
	}
	tx := s.Write(10, time.Now())
	tx.PutNode(n)
	tx.Commit()
	if err := s.Read().Dump(io.Discard); err == nil || !strings.Contains(err.Error(), "*api.Node has 269") {
		t.Errorf("got %v", err)
	}
}
