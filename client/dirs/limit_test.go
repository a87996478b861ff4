package dirs_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/dirquota"
	"github.com/open-nomad/open-nomad/client/dirs"
	"github.com/open-nomad/open-nomad/internal/disktest"
)

const mb = 1 << 20

// TestLimitedAllocation: the limit counts for all directories of the allocation, and it goes with them.
func TestLimitedAllocation(t *testing.T) {
	tree := dirs.New(filepath.Join(disktest.Btrfs(t), "allocs"))
	if err := tree.Prepare(); err != nil {
		t.Fatal(err)
	}
	kind, err := dirquota.Detect(tree.Root())
	if err != nil {
		t.Fatal(err)
	}
	a, err := tree.Limited(kind).Alloc("a1")
	if err := errors.Join(err, a.Build(), a.BuildTask("web"), a.Limit(10*mb)); err != nil {
		t.Fatal(err)
	}
	write(t, a.Task("web").Local()+"/one", string(make([]byte, 5*mb)))
	if err := os.WriteFile(a.Shared()+"/data/two", make([]byte, 6*mb), 0o600); !errors.Is(err, unix.EDQUOT) {
		t.Errorf("11 MB fit: %v", err)
	}
	if !a.Full() {
		t.Error("it is not full")
	}
	// A directory that an earlier process made without a limit is used without one.
	plain, err := tree.Alloc("a2")
	if err := errors.Join(err, plain.Build()); err != nil {
		t.Fatal(err)
	}
	again, err := tree.Limited(kind).Alloc("a2")
	if err := errors.Join(err, again.Build(), again.Limit(mb)); err != nil {
		t.Error(err)
	}
	write(t, again.Shared()+"/data/f", string(make([]byte, 2*mb)))
	if err := errors.Join(a.Remove(), again.Remove()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(tree.Root()); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
}

// TestDataMovesBetweenLimits: a rename does not reach from one limit to another. The data that moved counts for the new
// allocation, also when it is larger than the limit; what is left is enough to start.
func TestDataMovesBetweenLimits(t *testing.T) {
	root := filepath.Join(disktest.Btrfs(t), "allocs")
	if err := os.Mkdir(root, 0o711); err != nil {
		t.Fatal(err)
	}
	limited := dirs.New(root).Limited(dirquota.Btrfs)
	for name, tree := range map[string]dirs.Tree{"limited": limited, "plain": dirs.New(root)} {
		t.Run(name, func(t *testing.T) {
			from, err := tree.Alloc(name + "1")
			to, err2 := limited.Alloc(name + "2")
			if err := errors.Join(err, err2, from.Build(), from.BuildTask("web"), to.Build(), from.Limit(30*mb)); err != nil {
				t.Fatal(err)
			}
			write(t, from.Shared()+"/data/f", string(make([]byte, 20*mb)))
			write(t, from.Task("web").Local()+"/own", "w")
			if err := errors.Join(os.Link(from.Shared()+"/data/f", from.Shared()+"/data/again"), os.Symlink("/etc", from.Shared()+"/data/link"),
				os.Chown(from.Shared()+"/data/f", 7, 8)); err != nil {
				t.Fatal(err)
			}
			for range 2 { // a move that was interrupted is repeated
				if err := to.TakeData(from, []string{"web"}); err != nil {
					t.Fatal(err)
				}
			}
			if err := to.Limit(10 * mb); err != nil {
				t.Fatal(err)
			}
			content(t, to.Task("web").Local()+"/own", "w")
			one, err := os.Stat(to.Shared() + "/data/f")
			again, err2 := os.Stat(to.Shared() + "/data/again")
			if err := errors.Join(err, err2); err != nil || one.Size() != 20*mb || !os.SameFile(one, again) {
				t.Errorf("%+v %+v %v", one, again, err)
			}
			if to, err := os.Readlink(to.Shared() + "/data/link"); to != "/etc" || err != nil {
				t.Errorf("%s %v", to, err)
			}
			if left, err := os.ReadDir(from.Shared()); err != nil || len(left) != 2 {
				t.Errorf("left at the source: %v %v", left, err)
			}
			write(t, to.Shared()+"/data/small", string(make([]byte, mb/2)))
			if err := os.WriteFile(to.Shared()+"/data/more", make([]byte, 2*mb), 0o600); !errors.Is(err, unix.EDQUOT) {
				t.Errorf("more fits: %v", err)
			}
			if err := errors.Join(from.Remove(), to.Remove()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDataThatIsThereIsKeptBetweenLimits: what is at the target stays, and the source too.
func TestDataThatIsThereIsKeptBetweenLimits(t *testing.T) {
	root := filepath.Join(disktest.Btrfs(t), "allocs")
	tree := dirs.New(root).Limited(dirquota.Btrfs)
	from, err := tree.Alloc("a1")
	to, err2 := tree.Alloc("a2")
	if err := errors.Join(err, err2, from.Build(), to.Build()); err != nil {
		t.Fatal(err)
	}
	write(t, from.Shared()+"/data/old", "o")
	write(t, to.Shared()+"/data/new", "n")
	if err := to.TakeData(from, nil); err != nil {
		t.Fatal(err)
	}
	content(t, to.Shared()+"/data/new", "n")
	content(t, from.Shared()+"/data/old", "o")
}
