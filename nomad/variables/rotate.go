package variables

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

const (
	// batchRows and batchBytes bound the variables of one entry of the log.
	batchRows  = 64
	batchBytes = 512 << 10
	// again is the pause before older keys are looked at again: of variables that could not be encrypted, and of those that
	// were being written when the key was rotated.
	again = time.Minute
)

// Rotate encrypts the variables of older root keys with the active one while this server leads.
func (s *Service) Rotate(ctx context.Context) error {
	for ctx.Err() == nil {
		w := s.State.Watch(state.TableKey(state.TableRootKeys))
		tx, pause := s.State.Read(), time.Duration(0)
		if active := tx.ActiveRootKey(); active != nil {
			for k := range tx.RootKeys() {
				if k.KeyID != active.KeyID {
					pause = again
					if err := s.reencrypt(ctx, k.KeyID); err != nil && ctx.Err() == nil {
						s.Log.Warn("variables of an older root key stay encrypted with it", "key", k.KeyID, "error", err)
					}
				}
			}
		}
		wait(ctx, w, pause)
	}
	return nil
}

// reencrypt encrypts the variables of a root key with the active one, in batches. It returns the last failure; one
// variable does not stop the others.
func (s *Service) reencrypt(ctx context.Context, key string) (failed error) {
	var rows []*api.VariableRow
	size := 0
	flush := func() {
		if len(rows) == 0 {
			return
		}
		if _, err := s.Raft.Propose(ctx, &Reencrypt{Rows: rows}); err != nil {
			failed = err
		}
		rows, size = nil, 0
	}
	for v := range s.State.Read().VariablesOfRootKey(key) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		items, err := s.open(v)
		row := &api.VariableRow{VariableMeta: v.VariableMeta}
		row.Lock = nil // the stored one stays
		if err == nil {
			err = s.seal(ctx, row, items)
		}
		if err != nil {
			failed = err
			continue
		}
		rows, size = append(rows, row), size+len(row.Data)
		if len(rows) == batchRows || size >= batchBytes {
			flush()
		}
	}
	flush()
	return failed
}
