package allocs

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
)

const (
	// batchMax bounds the reports of one raft entry.
	batchMax = 512
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
	allocs []*api.Allocation
	done   chan struct{}
	index  uint64
	err    error
}

func newBatcher(r fsm.Proposer) *batcher {
	b := &batcher{raft: r, turn: make(chan struct{}, 1)}
	b.turn <- struct{}{}
	return b
}

func (b *batcher) send(ctx context.Context, reports []*api.Allocation) (uint64, error) {
	mine, first := b.join(reports)
	if first {
		b.propose(ctx, mine)
	}
	select {
	case <-mine.done:
		return mine.index, mine.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (b *batcher) join(reports []*api.Allocation) (mine *batch, first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil || len(b.open.allocs)+len(reports) > batchMax {
		b.open, first = &batch{done: make(chan struct{})}, true
	}
	b.open.allocs = append(b.open.allocs, reports...)
	return b.open, first
}

// propose sends the batch even when its first caller gave up: others wait for it.
func (b *batcher) propose(ctx context.Context, mine *batch) {
	defer close(mine.done)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), batchTime)
	defer cancel()
	select {
	case <-b.turn:
		defer func() { b.turn <- struct{}{} }()
	case <-ctx.Done():
		mine.err = ctx.Err()
	}
	b.mu.Lock()
	if b.open == mine {
		b.open = nil
	}
	allocs := mine.allocs
	b.mu.Unlock()
	if mine.err != nil {
		return
	}
	res, err := b.raft.Propose(ctx, &UpdateClient{Allocs: allocs, Seed: uuid.NewString()})
	mine.index, mine.err = res.Index, err
}
