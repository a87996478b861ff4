package escape

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// attack is one thing that a task tries; it may go on for ever.
type attack struct {
	name string
	try  func(ground)
}

// kinds are the attacks of the tasks of one allocation each.
var kinds = map[string][]attack{
	"links": links, "pipes": pipes, "swaps": swaps, "races": races, "templates": templates, "trees": trees, "names": names,
	"proc": proc, "processes": processes,
}

// ground is what a hostile task finds.
type ground struct {
	// alloc is the directory of its allocation, with shared and logs; own and web are those of its tasks.
	alloc, shared, logs, own, web string
	// victim holds files of root: secret and dir/file are for root only, open is for all to read.
	victim string
	// data is the agent's own directory, pid the agent.
	data string
	pid  int
	// task is the name of the hostile task.
	task, reports string
}

// Names of the variables that tell a hostile task what to do.
const (
	kindVar, victimVar, dataVar, pidVar, reportsVar = "ESCAPE_KIND", "ESCAPE_VICTIM", "ESCAPE_DATA", "ESCAPE_PID", "ESCAPE_REPORTS"
)

// TestMain is the hostile task as well: jobs run this binary.
func TestMain(m *testing.M) {
	if kind := os.Getenv(kindVar); kind != "" {
		hostile(kind)
	}
	os.Exit(m.Run())
}

func hostile(kind string) {
	var pid int
	_, _ = fmt.Sscan(os.Getenv(pidVar), &pid)
	shared := os.Getenv("NOMAD_ALLOC_DIR")
	g := ground{
		alloc: filepath.Dir(shared), shared: shared, logs: filepath.Join(shared, "logs"), victim: os.Getenv(victimVar), data: os.Getenv(dataVar),
		pid: pid, task: "hostile", reports: os.Getenv(reportsVar),
	}
	g.own, g.web = filepath.Join(g.alloc, g.task), filepath.Join(g.alloc, "web")
	inherited(g)
	switch kind {
	case "husk":
		deep(filepath.Join(g.shared, "data", "deep"), 500)
		os.Exit(0)
	case "inside":
		insideNamespaces(g)
	}
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGIO)
	runtime.GOMAXPROCS(1)
	if kind != "races" {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 10)
	}
	for _, a := range kinds[kind] {
		go a.try(g)
	}
	for range time.Tick(time.Hour) {
		fmt.Println("still here")
	}
}

// escaped reports a way out that the task itself notices.
func (g ground) escaped(format string, args ...any) {
	f, err := os.CreateTemp(g.reports, "escaped-")
	if err == nil {
		fmt.Fprintf(f, format+"\n", args...)
		_ = f.Close()
	}
}

// refused reports an escape when what was tried went well.
func (g ground) refused(err error, format string, args ...any) {
	if err == nil {
		g.escaped(format, args...)
	}
}

// again tries for ever, with turns for the others.
func again(try func()) {
	for range time.Tick(200 * time.Microsecond) {
		try()
	}
}

// sharedFile is a path in what the allocation's tasks share.
func (g ground) sharedFile(name string) string { return filepath.Join(g.shared, "data", name) }

// log is the path of a log file.
func (g ground) log(task, kind string, n int) string {
	return filepath.Join(g.logs, fmt.Sprintf("%s.%s.%d", task, kind, n))
}

func write(path, text string) { _ = os.WriteFile(path, []byte(text), 0o666) }

// exchange swaps two names at once.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// swap makes a name the thing that make makes and what others have there, by turns.
func swap(place string, make func(path string)) {
	side := place + ".side"
	again(func() {
		if _, err := os.Lstat(side); err != nil {
			make(side)
		}
		if exchange(place, side) != nil {
			_ = os.Rename(side, place)
		}
	})
}

func linkTo(target string) func(string) {
	return func(path string) { _ = os.Symlink(target, path) }
}
