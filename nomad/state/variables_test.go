package state_test

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// The size of the variables is that of the rows: after writes, deletes, changes that were given up, and a restore.
func TestSizeOfVariablesIsThatOfTheRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := state.New()
		space, path := rapid.SampledFrom([]string{"a", "b"}), rapid.SampledFrom([]string{"p", "q", "r"})
		same := func(tx *state.Txn) {
			for _, ns := range []string{"a", "b"} {
				sum := int64(0)
				for v := range tx.VariableSpan(state.Span{Namespace: ns}) {
					sum += int64(len(v.Data))
				}
				if got := tx.VariableBytes(ns); got != sum {
					t.Fatalf("namespace %s: got %d, want %d", ns, got, sum)
				}
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			before, index := s.Read(), s.Read().Index()
			tx := s.Write(index+1, time.Unix(1, 0))
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				ns, p := space.Draw(t, "namespace"), path.Draw(t, "path")
				if rapid.Bool().Draw(t, "delete") {
					tx.DeleteVariable(ns, p)
				} else {
					meta := api.VariableMeta{Namespace: ns, Path: p, CreateIndex: index + 1, ModifyIndex: index + 1}
					tx.PutVariable(&api.VariableRow{VariableMeta: meta, Data: make([]byte, rapid.IntRange(0, 9).Draw(t, "size"))})
				}
				same(tx)
			}
			if rapid.Bool().Draw(t, "abort") {
				tx.Abort()
			} else {
				tx.Commit()
			}
			same(before)
			same(s.Read())
		}
		var b bytes.Buffer
		if err := s.Read().Dump(&b); err != nil {
			t.Fatal(err)
		}
		other := state.New()
		tx := other.Write(2, time.Unix(1, 0))
		tx.PutVariable(&api.VariableRow{VariableMeta: api.VariableMeta{Namespace: "a", Path: "replaced"}, Data: make([]byte, 5)})
		tx.Commit()
		if err := other.Restore(&b); err != nil {
			t.Fatal(err)
		}
		same(other.Read())
	})
}
