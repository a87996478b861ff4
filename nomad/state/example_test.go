package state_test

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// The log writes: one transaction for each entry, with its index and time. Everybody else reads snapshots, and waits for
// what they want to see.
func Example() {
	s := state.New()
	before := s.Read()
	go func() {
		tx := s.Write(7, time.Unix(1_700_000_000, 0))
		tx.PutNode(&api.Node{ID: "n1", Status: api.NodeStatusReady})
		tx.Commit()
	}()

	var ready *api.Node
	err := state.Until(context.Background(), s, []state.Key{state.TableKey(state.TableNodes)}, func(tx *state.Txn) bool {
		ready = tx.Node("n1")
		return ready != nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ready.Status, ready.ModifyIndex)
	fmt.Println(before.Node("n1") == nil) // a snapshot stays as it was
	// Output:
	// ready 7
	// true
}
