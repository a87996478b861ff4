package hostpath

import (
	"context"
	"fmt"
)

// A deletion marks the record first: what is marked is neither used nor copied any more, so that the copies which are under
// way are the last ones. When they have ended its data goes, and then the record. What is marked can be deleted again, or
// made again, and nothing else.

// mark is what records of volumes and snapshots contain about their deletion.
type mark struct{ Deleting bool }

// endDeletion removes an object that is marked as deleted, or that has no record, as after an incomplete creation or a
// deletion by earlier versions. It returns ABORTED when the copies take too long.
func (d *driver) endDeletion(ctx context.Context, kind, prefix, id string) error {
	done, err := d.books.removing(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	unlock, err := d.books.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	m, err := get[mark](d.books, kind, id)
	if err != nil || m == nil && !isID(prefix, id) {
		return err
	}
	if m != nil && !m.Deleting { // it was deleted, and made again
		return nil
	}
	return d.purge(kind, id)
}

// lockNew takes the lock of what is to be made, when its deletion, if there is one, has ended.
func (d *driver) lockNew(ctx context.Context, kind, prefix, id string) (unlock func(), err error) {
	for {
		unlock, err := d.books.lock(ctx, id)
		if err != nil {
			return nil, err
		}
		m, err := get[mark](d.books, kind, id)
		if err == nil && (m == nil || !m.Deleting) {
			return unlock, nil
		}
		unlock()
		if err == nil {
			err = d.endDeletion(ctx, kind, prefix, id)
		}
		if err != nil {
			return nil, fmt.Errorf("end the deletion of %s: %w", id, err)
		}
	}
}
