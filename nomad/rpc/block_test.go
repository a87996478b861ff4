package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func put(s *state.Store, index uint64, name string) {
	tx := s.Write(index, time.Time{})
	tx.PutNamespace(&api.Namespace{Name: name})
	tx.Commit()
}

func TestBlockWaitsForANewerIndex(t *testing.T) {
	t.Parallel()
	s := state.New()
	keys := []state.Key{state.TableKey(state.TableNamespaces)}
	put(s, 10, "one")
	count := 0
	read := func(tx *state.Txn) error {
		count = 0
		for range tx.Namespaces() {
			count++
		}
		return nil
	}
	var m api.QueryMeta
	if err := rpc.Block(t.Context(), s, &api.QueryOptions{}, &m, keys, read); err != nil || m.Index != 10 || count != 2 {
		t.Fatalf("at once: %v %+v %d", err, m, count)
	}
	if err := rpc.Block(t.Context(), s, &api.QueryOptions{MinIndex: 9}, &m, keys, read); err != nil || m.Index != 10 {
		t.Fatalf("older index: %v %+v", err, m)
	}
	ran := make(chan struct{}, 8)
	done := make(chan error, 1)
	go func() {
		done <- rpc.Block(t.Context(), s, &api.QueryOptions{MinIndex: 10}, &m, keys, func(tx *state.Txn) error {
			ran <- struct{}{}
			return read(tx)
		})
	}()
	<-ran
	tx := s.Write(11, time.Time{})
	tx.PutNode(&api.Node{ID: "n1"})
	tx.Commit()
	put(s, 12, "two")
	if err := <-done; err != nil || m.Index != 12 || count != 3 {
		t.Fatalf("after the change: %v %+v %d", err, m, count)
	}
	if got := len(ran); got != 1 {
		t.Errorf("read %d more times, want 1: another table must not wake it", got)
	}
}

func TestBlockEnds(t *testing.T) {
	t.Parallel()
	s := state.New()
	keys := []state.Key{state.TableKey(state.TableNodes)}
	ok := func(*state.Txn) error { return nil }
	var m api.QueryMeta
	if err := rpc.Block(t.Context(), s, &api.QueryOptions{MinIndex: 100, MaxWait: 30 * time.Millisecond}, &m, keys, ok); err != nil || m.Index != 1 {
		t.Errorf("end of the wait: %v %+v", err, m)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := rpc.Block(ctx, s, &api.QueryOptions{MinIndex: 100}, &m, keys, ok); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	fails := func(*state.Txn) error { return fault.New(fault.NotFound, "gone") }
	if err := rpc.Block(t.Context(), s, &api.QueryOptions{}, &m, keys, fails); !errors.Is(err, fault.NotFound) {
		t.Errorf("failing read: %v", err)
	}
}

// The indexes of a restored state cannot be compared with those of before.
func TestARestoreEndsTheWait(t *testing.T) {
	t.Parallel()
	s := state.New()
	put(s, 10, "one")
	var dump bytes.Buffer
	if err := s.Read().Dump(&dump); err != nil {
		t.Fatal(err)
	}
	put(s, 1000, "two")
	var m api.QueryMeta
	ran := make(chan struct{}, 8)
	done := make(chan error, 1)
	go func() {
		done <- rpc.Block(t.Context(), s, &api.QueryOptions{MinIndex: 1000, MaxWait: time.Hour}, &m, []state.Key{state.TableKey(state.TableNamespaces)},
			func(*state.Txn) error { ran <- struct{}{}; return nil })
	}()
	<-ran
	if err := s.Restore(&dump); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || m.Index != 10 {
		t.Errorf("%v, index %d", err, m.Index)
	}
}
