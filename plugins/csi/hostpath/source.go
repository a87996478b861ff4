package hostpath

import (
	"cmp"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// holdSource opens what is copied, so that nothing that is made later gets its inode. Without a source it is nil, which may
// be closed.
func holdSource(path string) (*os.File, error) {
	if path == "" {
		return nil, nil
	}
	return mounts.OpenBare(path, unix.O_PATH)
}

// whole makes sure that nobody has begun to delete the source of a volume while it was copied, even if it was made anew
// since: part of the data would be missing. copied is what [holdSource] opened before.
func (d *driver) whole(v *volume, copied *os.File) error {
	source := cmp.Or(v.CloneOf, v.SnapshotOf)
	there := true
	switch {
	case v.CloneOf != "":
		from, err := d.books.volume(v.CloneOf)
		if err != nil {
			return err
		}
		there = from != nil && !from.Deleting
	case v.SnapshotOf != "":
		from, err := d.books.snapshot(v.SnapshotOf)
		if err != nil {
			return err
		}
		there = from != nil && !from.Deleting
	}
	if copied == nil {
		return nil
	}
	before, err := copied.Stat()
	if err != nil {
		return err
	}
	now, err := mounts.OpenBare(d.books.data(source), unix.O_PATH)
	if errors.Is(err, fs.ErrNotExist) {
		return deleting(source)
	}
	if err != nil {
		return err
	}
	defer now.Close()
	after, err := now.Stat()
	if err == nil && (!there || !os.SameFile(before, after)) {
		err = deleting(source)
	}
	return err
}
