package disk

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
)

// verifyTimeout bounds the reading of the log at the start; entries that it does not reach are checked
// when they are applied.
const verifyTimeout = 10 * time.Second

// VerifyLog reads the whole log and checks every entry, the newest first: they are what a broken disk
// or a copied directory damages.
func VerifyLog(logs raft.LogStore, dir string, log hclog.Logger) error {
	first, err := logs.FirstIndex()
	if err != nil {
		return damaged(dir, fmt.Errorf("first index: %w", err))
	}
	last, err := logs.LastIndex()
	if err != nil {
		return damaged(dir, fmt.Errorf("last index: %w", err))
	}
	if last == 0 {
		return nil
	}
	start := time.Now()
	for i := last; i >= first && i > 0; i-- {
		if err := VerifyEntry(logs, i); err != nil {
			return damaged(dir, fmt.Errorf("entry %d of %d to %d: %w", i, first, last, err))
		}
		if i%64 == 0 && time.Since(start) > verifyTimeout {
			log.Warn("the raft log is long: not all of it was verified at the start", "first", first, "verified_from", i, "last", last)
			return nil
		}
	}
	log.Debug("verified the raft log", "first", first, "last", last, "took", time.Since(start))
	return nil
}

// VerifyEntry returns an error for an entry that is missing or damaged.
func VerifyEntry(logs raft.LogStore, index uint64) error {
	var l raft.Log
	err := logs.GetLog(index, &l)
	switch {
	case errors.Is(err, raft.ErrLogNotFound):
		return errors.New("it is missing")
	case err != nil:
		return err
	case l.Index != index:
		return fmt.Errorf("its index is %d", l.Index)
	case l.Type != raft.LogCommand:
		return nil
	}
	return fsm.CheckEntry(l.Data)
}

// damaged is the error for a log that cannot be used.
func damaged(dir string, err error) error {
	return fault.New(fault.Invalid, "the raft log in %s is damaged: %w. Where other servers have the log, move %s away "+
		"and start this server again: it joins them and copies their log. Where there are none, `nomad operator raft recover <data_dir>` "+
		"shows what can be read and can cut off the damaged end; otherwise move the log away, start and restore a snapshot",
		dir, err, dir)
}
