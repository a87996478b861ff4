package allocs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
)

const (
	// batchMax bounds the reports of one raft entry, batchBytes their size.
	batchMax   = 512
	batchBytes = 8 << 20
	// batchTime bounds one raft entry, whoever waits for it.
	batchTime = 30 * time.Second
)

// batcher brings reports that arrive together into one raft entry. The first caller of a batch
// proposes it, once the entry before is through; the others wait for its answer.
type batcher struct {
	raft fsm.Proposer
	mu   sync.Mutex
	open *batch
	turn chan struct{} // holds a token while nobody proposes
}

type batch struct {
	parts []*part
	count int
	size  int
	done  chan struct{}
}

// part is the report of one caller and its result.
type part struct {
	allocs []*api.Allocation
	index  uint64
	err    error
}

func newBatcher(r fsm.Proposer) *batcher {
	b := &batcher{raft: r, turn: make(chan struct{}, 1)}
	b.turn <- struct{}{}
	return b
}

func (b *batcher) send(ctx context.Context, reports []*api.Allocation) (uint64, error) {
	mine := &part{allocs: reports}
	joined, first := b.join(mine)
	if first { // beside: a server that ends waits for its callers, and must not wait for a log that hangs
		go b.propose(ctx, joined)
	}
	select {
	case <-joined.done:
		return mine.index, mine.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (b *batcher) join(mine *part) (joined *batch, first bool) {
	size := 0
	for _, a := range mine.allocs {
		size += a.Msgsize()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil || b.open.count+len(mine.allocs) > batchMax || b.open.size+size > batchBytes {
		b.open, first = &batch{done: make(chan struct{})}, true
	}
	b.open.parts = append(b.open.parts, mine)
	b.open.count, b.open.size = b.open.count+len(mine.allocs), b.open.size+size
	return b.open, first
}

// propose sends the batch even when its first caller gave up: others wait for it.
func (b *batcher) propose(ctx context.Context, mine *batch) {
	defer close(mine.done)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), batchTime)
	defer cancel()
	var late error
	select {
	case <-b.turn:
		defer func() { b.turn <- struct{}{} }()
	case <-ctx.Done():
		late = ctx.Err()
	}
	b.mu.Lock()
	if b.open == mine {
		b.open = nil
	}
	parts := mine.parts
	b.mu.Unlock()
	if late != nil {
		answer(parts, 0, late)
		return
	}
	b.try(ctx, parts)
}

// try proposes parts together. What is refused together is tried one by one: a part hurts its own caller only.
func (b *batcher) try(ctx context.Context, parts []*part) {
	var allocs []*api.Allocation
	for _, p := range parts {
		allocs = append(allocs, p.allocs...)
	}
	res, err := b.raft.Propose(ctx, &UpdateClient{Allocs: allocs, Seed: uuid.NewString()})
	if err == nil || len(parts) == 1 || !refused(err) {
		answer(parts, res.Index, err)
		return
	}
	for _, p := range parts {
		b.try(ctx, []*part{p})
	}
}

func answer(parts []*part, index uint64, err error) {
	for _, p := range parts {
		p.index, p.err = index, err
	}
}

// refused reports an error that is about what was proposed, not about who leads or how long it took.
func refused(err error) bool {
	switch fault.Of(err) {
	case fault.Unavailable, fault.NotLeader, fault.Timeout:
		return false
	}
	return !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}
