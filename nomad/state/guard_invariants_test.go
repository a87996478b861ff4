//go:build invariants

package state_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func TestGuardCatchesMutation(t *testing.T) {
	s := newStore(t)
	write(s, 5, func(tx *state.Txn) {
		tx.PutNode(&api.Node{ID: "n1", Meta: map[string]string{"a": "1"}})
		tx.PutNode(&api.Node{ID: "n2"})
	})
	n := s.Read().Node("n1")
	clone := *n
	clone.Status = api.NodeStatusReady
	write(s, 6, func(tx *state.Txn) { tx.PutNode(&clone) })
	s.Read().Node("n1").Meta["a"] = "2"
	defer func() {
		if r, _ := recover().(string); !strings.Contains(r, "changed without Put") {
			t.Fatalf("the guard slept: %v", r)
		}
	}()
	s.Read().Node("n2")
	s.Read().Node("n1")
}
