package dirs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Names of the directories that every allocation has.
const (
	sharedName  = "alloc"
	logsName    = "logs"
	localName   = "local"
	secretsName = "secrets"
	tmpName     = "tmp"
)

// nobody is the owner of directories that tasks of any user may write to.
const nobody = 65534

// Tree holds the directories of all allocations of a node.
type Tree struct{ root string }

// New returns the tree below root, which need not exist yet.
func New(root string) Tree { return Tree{root} }

// Root is the directory of the tree.
func (t Tree) Root() string { return t.root }

// Prepare creates the root.
func (t Tree) Prepare() error {
	if err := os.MkdirAll(t.root, 0o711); err != nil {
		return fmt.Errorf("create the directory of allocations: %w", err)
	}
	return nil
}

// Alloc returns the directories of one allocation. An id that is no single path element is refused.
func (t Tree) Alloc(id string) (Alloc, error) {
	if !element(id) {
		return Alloc{}, fault.New(fault.Invalid, "allocation id %q cannot name a directory", id)
	}
	return Alloc{filepath.Join(t.root, id)}, nil
}

// Alloc are the directories of one allocation.
type Alloc struct{ dir string }

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
