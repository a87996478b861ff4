package dirs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/dirquota"
)

// Names of the directories that every allocation has.
const (
	sharedName  = "alloc"
	logsName    = "logs"
	localName   = "local"
	secretsName = "secrets"
	tmpName     = "tmp"
)

// topDir is FS_TOPDIR_FL, which chattr +T sets.
const topDir = 0x00020000

// nobody is the owner of directories that tasks of any user may write to.
const nobody = 65534

// Tree holds the directories of all allocations of a node.
type Tree struct {
	root     string
	inMemory bool
	quota    dirquota.Kind
}

// New returns the tree below root, which need not exist yet.
func New(root string) Tree { return Tree{root: root} }

// Limited returns the same tree, whose new allocations can have a limit of their size; see [Alloc.Limit].
func (t Tree) Limited(k dirquota.Kind) Tree {
	t.quota = k
	return t
}

// Root is the directory of the tree.
func (t Tree) Root() string { return t.root }

// Prepare creates the root, whose allocations are independent of each other; see [Apart].
func (t Tree) Prepare() error {
	if err := os.MkdirAll(t.root, 0o711); err != nil {
		return fmt.Errorf("create the directory of allocations: %w", err)
	}
	return Apart(t.root)
}

// Apart sets FS_TOPDIR_FL on a directory of an ext4 without a journal, so that its subdirectories go to different block
// groups. In one group, each new inode is searched behind all that were removed in the last minutes: without the flag a
// start of a task takes 6.6 ms of processor time instead of 4.0.
func Apart(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("spread directories: %w", err)
	}
	defer f.Close()
	if !reusesLate(int(f.Fd())) {
		return nil
	}
	if flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS); err == nil && flags&topDir == 0 {
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags|topDir))
	}
	return nil
}

// reusesLate reports whether the file system passes over inodes that were removed just now.
func reusesLate(fd int) bool {
	var fs unix.Statfs_t
	var st unix.Stat_t
	if unix.Fstatfs(fd, &fs) != nil || fs.Type != unix.EXT4_SUPER_MAGIC || unix.Fstat(fd, &st) != nil {
		return false
	}
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		return false
	}
	journals, _ := filepath.Glob("/proc/fs/jbd2/" + filepath.Base(device) + "-*")
	return len(journals) == 0
}

// Alloc returns the directories of one allocation. An id that is no single path element is refused.
func (t Tree) Alloc(id string) (Alloc, error) {
	if !element(id) {
		return Alloc{}, fault.New(fault.Invalid, "allocation id %q cannot name a directory", id)
	}
	return Alloc{filepath.Join(t.root, id), t.inMemory, t.quota}, nil
}

// Alloc are the directories of one allocation.
type Alloc struct {
	dir      string
	inMemory bool
	quota    dirquota.Kind
}

// Dir is the directory of the allocation.
func (a Alloc) Dir() string { return a.dir }

// Shared is the directory that the tasks share.
func (a Alloc) Shared() string { return filepath.Join(a.dir, sharedName) }

// Logs is the directory of the log files.
func (a Alloc) Logs() string { return filepath.Join(a.dir, sharedName, logsName) }

// Task returns the directories of one task.
func (a Alloc) Task(name string) Task { return Task{filepath.Join(a.dir, name)} }

// Task are the directories of one task.
type Task struct{ dir string }

// Dir is the directory of the task.
func (t Task) Dir() string { return t.dir }

// Local is the private scratch directory of the task.
func (t Task) Local() string { return filepath.Join(t.dir, localName) }

// Secrets is the directory of the task that users cannot read through the API.
func (t Task) Secrets() string { return filepath.Join(t.dir, secretsName) }

// element reports whether name is one plain path element.
func element(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}
