package diskpages_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/diskpages"
)

// tree makes files below a new directory: names that end in a slash are directories.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o755)
		} else if err == nil {
			err = os.WriteFile(path, []byte(text), 0o640)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// copied copies the data page by page, as they come from another node.
func copied(t *testing.T, from string, tasks []string, sizeMB int, between func(page int)) (to string, omitted int, err error) {
	t.Helper()
	to = filepath.Join(t.TempDir(), "copy")
	w := diskpages.NewWriter(to, tasks, sizeMB)
	var cursor api.DiskCursor
	for n := 1; ; n++ {
		page, err := diskpages.Read(from, tasks, cursor)
		if err != nil {
			return to, omitted, err
		}
		encoded, err := page.MarshalMsg(nil)
		if err == nil {
			page = &api.DiskDataResponse{}
			_, err = page.UnmarshalMsg(encoded)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(page); err != nil {
			return to, omitted, err
		}
		if omitted += page.Omitted; page.End {
			return to, omitted, w.Finish()
		}
		if cursor = w.Next(page); between != nil {
			between(n)
		}
	}
}

// described lists a tree: the mode, the time, the size and the content of each entry.
func described(t *testing.T, dir string, parts ...string) string {
	t.Helper()
	var out strings.Builder
	for _, part := range parts {
		err := filepath.WalkDir(filepath.Join(dir, part), func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := os.Lstat(path)
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(dir, path)
			fmt.Fprintf(&out, "%q %v %v", rel, info.Mode(), info.ModTime().UnixNano())
			switch {
			case info.Mode().IsRegular():
				body, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				fmt.Fprintf(&out, " %d %x", len(body), body[:min(len(body), 32)])
			case info.Mode()&fs.ModeSymlink != 0:
				target, _ := os.Readlink(path)
				out.WriteString(" -> " + target)
			}
			out.WriteString("\n")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func same(t *testing.T, from, to string, parts ...string) {
	t.Helper()
	if want, got := described(t, from, parts...), described(t, to, parts...); got != want {
		t.Errorf("the copy is\n%s, not\n%s", got, want)
	}
}

func TestDataIsCopiedWithModesTimesAndLinks(t *testing.T) {
	t.Parallel()
	from := tree(t, map[string]string{
		"alloc/data/a": "one", "alloc/data/sub/b": "two", "alloc/data/sub/empty": "", "alloc/data/sub.x": "order", "alloc/data/dir/": "",
		"alloc/logs/x": "log", "alloc/tmp/x": "tmp", "web/local/\xff\xfe\n": "no text", "web/secrets/key": "secret", "old/local/x": "other task",
	})
	data := filepath.Join(from, "alloc/data")
	err := errors.Join(
		os.Symlink("a", data+"/inside"), os.Symlink("../../web/local", data+"/across"), os.Symlink("/alloc/data/a", data+"/absolute"),
		os.Symlink("missing", data+"/broken"),
		os.Symlink("/etc/passwd", data+"/outside"), os.Symlink("../../../x", data+"/above"), os.Symlink("/alloc/../etc", data+"/tricky"),
		unix.Mkfifo(data+"/pipe", 0o600), os.Chmod(data+"/a", 0o4750), os.Chmod(data+"/sub", 0o2700), os.Chmod(data, 0o777),
		os.Chtimes(data+"/sub", time.Unix(7, 9), time.Unix(7, 9)), os.Chtimes(data+"/a", time.Unix(8, 5), time.Unix(8, 5)),
	)
	if err != nil {
		t.Fatal(err)
	}
	to, omitted, err := copied(t, from, []string{"web", "new", "../old", "alloc"}, 10, nil)
	if err != nil || omitted != 4 {
		t.Fatalf("%d omitted, %v", omitted, err)
	}
	// Nothing that gets rights from its owner comes from another node.
	if err := os.Chmod(data+"/a", 0o750); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"outside", "above", "tricky", "pipe"} {
		if err := os.Remove(data + "/" + name); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chtimes(to+"/alloc/data", time.Unix(1, 0), time.Unix(1, 0)), os.Chtimes(data, time.Unix(1, 0), time.Unix(1, 0))); err != nil {
		t.Fatal(err)
	}
	same(t, from, to, "alloc/data", "web/local")
	for _, name := range []string{"alloc/logs", "alloc/tmp", "web/secrets", "old", "new"} {
		if _, err := os.Lstat(filepath.Join(to, name)); err == nil {
			t.Errorf("%s is copied", name)
		}
	}
}

func TestOwnersAreKept(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	from := tree(t, map[string]string{"alloc/data/sub/a": "x"})
	if err := errors.Join(os.Chown(from+"/alloc/data/sub", 1234, 5), os.Chown(from+"/alloc/data/sub/a", 7, 1235)); err != nil {
		t.Fatal(err)
	}
	to, _, err := copied(t, from, nil, 10, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]uint32{"sub": {1234, 5}, "sub/a": {7, 1235}} {
		var st unix.Stat_t
		if err := unix.Stat(to+"/alloc/data/"+name, &st); err != nil || st.Uid != want[0] || st.Gid != want[1] {
			t.Errorf("%s belongs to %d:%d, %v", name, st.Uid, st.Gid, err)
		}
	}
}

// Files of many pages, sparse ones and ones with several names arrive whole, and cost what they cost on the first node.
func TestLargeSparseAndLinkedFiles(t *testing.T) {
	t.Parallel()
	from := tree(t, map[string]string{"alloc/data/z": "last"})
	data := filepath.Join(from, "alloc/data")
	large := make([]byte, 9<<20+17)
	_, _ = rand.Read(large)
	holes, err := os.Create(data + "/holes")
	if err != nil {
		t.Fatal(err)
	}
	_, err1 := holes.WriteAt([]byte("head"), 0)
	_, err2 := holes.WriteAt([]byte("middle"), 1<<30)
	err = errors.Join(
		err1, err2, holes.Truncate(2<<30), holes.Close(), os.WriteFile(data+"/large", large, 0o600),
		os.Link(data+"/large", data+"/large.again"), os.Link(data+"/large", data+"/m"), os.Link(data+"/z", data+"/y"),
	)
	if err != nil {
		t.Fatal(err)
	}
	to, _, err := copied(t, from, nil, 10, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(to + "/alloc/data/m")
	if err != nil || !bytes.Equal(got, large) {
		t.Errorf("a linked file has %d bytes, %v", len(got), err)
	}
	var one, two, sparse unix.Stat_t
	err = errors.Join(unix.Stat(to+"/alloc/data/large", &one), unix.Stat(to+"/alloc/data/m", &two), unix.Stat(to+"/alloc/data/holes", &sparse))
	if err != nil || one.Ino != two.Ino || one.Nlink != 3 {
		t.Errorf("inodes %d and %d with %d names, %v", one.Ino, two.Ino, one.Nlink, err)
	}
	if sparse.Size != 2<<30 || sparse.Blocks > 1<<10 {
		t.Errorf("the sparse file has %d bytes in %d blocks", sparse.Size, sparse.Blocks)
	}
	f, err := os.Open(to + "/alloc/data/holes")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	middle := make([]byte, 6)
	if _, err := f.ReadAt(middle, 1<<30); err != nil || string(middle) != "middle" {
		t.Errorf("%q, %v", middle, err)
	}
}

func TestManyFilesOfAChangingDirectory(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for i := range 5_000 {
		files[fmt.Sprintf("alloc/data/%02d/%d", i%3, i)] = "x"
	}
	from := tree(t, files)
	gone := slices.Sorted(func(yield func(string) bool) {
		for name := range files {
			if strings.HasPrefix(name, "alloc/data/02/") && !yield(name) {
				return
			}
		}
	})
	pages := 0
	to, _, err := copied(t, from, nil, 10, func(page int) {
		if pages = page; page != 1 {
			return
		}
		// What the page ended with, what comes next, and a whole directory are removed or become something else.
		if err := errors.Join(os.RemoveAll(filepath.Join(from, "alloc/data/02")), os.WriteFile(from+"/alloc/data/02", []byte("a file"), 0o600)); err != nil {
			t.Fatal(err)
		}
	})
	if err != nil || pages != 1 {
		t.Fatalf("%d pages, %v", pages, err)
	}
	for _, part := range []string{"00", "01"} {
		entries, err := os.ReadDir(to + "/alloc/data/" + part)
		if err != nil || len(entries) < 1666 {
			t.Errorf("%s has %d files, %v", part, len(entries), err)
		}
	}
	if entries, err := os.ReadDir(to + "/alloc/data/02"); err != nil || len(entries) == 0 || len(entries) >= len(gone) {
		t.Errorf("02 has %d files, %v", len(entries), err)
	}
}

func TestDataBeyondTheDiskIsRefused(t *testing.T) {
	t.Parallel()
	from := tree(t, map[string]string{"alloc/data/a": strings.Repeat("x", 6<<20), "web/local/b": strings.Repeat("x", 6<<20)})
	if _, _, err := copied(t, from, []string{"web"}, 11, nil); !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "exceeds the 11 MB") {
		t.Errorf("12 MB on a disk of 11: %v", err)
	}
	if _, _, err := copied(t, from, []string{"web"}, 12, nil); err != nil {
		t.Errorf("12 MB on a disk of 12: %v", err)
	}
}

func TestAFileThatChangesMeanwhileIsNoticed(t *testing.T) {
	t.Parallel()
	from := tree(t, map[string]string{"alloc/data/a": strings.Repeat("x", 6<<20)})
	_, _, err := copied(t, from, nil, 20, func(int) {
		if err := os.WriteFile(from+"/alloc/data/a", bytes.Repeat([]byte("y"), 7<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if !errors.Is(err, diskpages.ErrChanged) {
		t.Error(err)
	}
}

// A task may have put links where its directories were.
func TestLinksAreNotFollowed(t *testing.T) {
	t.Parallel()
	foreign := tree(t, map[string]string{"secret": "x"})
	from := tree(t, map[string]string{"alloc/tmp/": "", "web/tmp/": ""})
	if err := errors.Join(os.Symlink(foreign, from+"/alloc/data"), os.Symlink(foreign, from+"/old"), os.WriteFile(from+"/web/local", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	page, err := diskpages.Read(from, []string{"web", "old"}, api.DiskCursor{})
	if err != nil || len(page.Entries) > 0 || !page.End {
		t.Errorf("%v, %v", page, err)
	}
	if _, err := diskpages.Read(from+"/missing", nil, api.DiskCursor{}); !errors.Is(err, fault.NotFound) {
		t.Errorf("no directory: %v", err)
	}
}

// A node that is not what it seems writes nothing but data.
func TestForeignEntriesAreRefused(t *testing.T) {
	t.Parallel()
	const folder, file, link = unix.S_IFDIR | 0o777, unix.S_IFREG | 0o666, unix.S_IFLNK | 0o777
	data := &api.DiskEntry{Path: []byte("alloc/data"), Mode: folder}
	outside := t.TempDir()
	for name, e := range map[string]*api.DiskEntry{
		"no path":             {Mode: file},
		"absolute":            {Path: []byte("/etc/passwd"), Mode: file},
		"above":               {Path: []byte("alloc/data/../../x"), Mode: file},
		"dot":                 {Path: []byte("alloc/data/./x"), Mode: file},
		"empty element":       {Path: []byte("alloc/data//x"), Mode: file},
		"zero byte":           {Path: []byte("alloc/data/x\x00y"), Mode: file},
		"logs":                {Path: []byte("alloc/logs/x"), Mode: file},
		"another task":        {Path: []byte("db/local/x"), Mode: file},
		"file as part":        {Path: []byte("alloc/data"), Mode: file},
		"no directory before": {Path: []byte("alloc/data/sub/x"), Mode: file},
		"device":              {Path: []byte("alloc/data/x"), Mode: unix.S_IFBLK | 0o666},
		"socket":              {Path: []byte("alloc/data/x"), Mode: unix.S_IFSOCK | 0o666},
		"link outside":        {Path: []byte("alloc/data/x"), Mode: link, Target: []byte(outside)},
		"below a file":        {Path: []byte("alloc/data/file/x"), Mode: file},
		"below a link":        {Path: []byte("alloc/data/link/x"), Mode: file},
		"negative size":       {Path: []byte("alloc/data/x"), Mode: file, Size: -1},
		"beyond the size":     {Path: []byte("alloc/data/x"), Mode: file, Size: 1, Data: []byte("xx")},
		"overflow":            {Path: []byte("alloc/data/x"), Mode: file, Size: 1, Offset: 1<<63 - 1, Data: []byte("xx")},
	} {
		w := diskpages.NewWriter(filepath.Join(t.TempDir(), "copy"), []string{"web"}, 10)
		err := w.Write(&api.DiskDataResponse{Entries: []*api.DiskEntry{
			data, {Path: []byte("alloc/data/file"), Mode: file}, {Path: []byte("alloc/data/link"), Mode: link, Target: []byte(".")}, e,
		}})
		if !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestADirectoryThatIsTooDeepIsRefused(t *testing.T) {
	t.Parallel()
	from := tree(t, map[string]string{"alloc/data/" + strings.Repeat("d/", 140): ""})
	if _, _, err := copied(t, from, nil, 10, nil); !errors.Is(err, fault.Invalid) {
		t.Error(err)
	}
}

func BenchmarkCopy(b *testing.B) {
	for name, size := range map[string]int{"files of 1 KiB": 1 << 10, "files of 64 MiB": 64 << 20} {
		b.Run(name, func(b *testing.B) {
			from := b.TempDir()
			count := min(20_000, 256<<20/size)
			if err := os.MkdirAll(from+"/alloc/data", 0o755); err != nil {
				b.Fatal(err)
			}
			for i := range count {
				if err := os.WriteFile(fmt.Sprintf("%s/alloc/data/%d", from, i), make([]byte, size), 0o600); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				w := diskpages.NewWriter(filepath.Join(b.TempDir(), "copy"), nil, 1<<10)
				var cursor api.DiskCursor
				for {
					page, err := diskpages.Read(from, nil, cursor)
					if err == nil {
						err = w.Write(page)
					}
					if err != nil {
						b.Fatal(err)
					}
					if cursor = w.Next(page); page.End {
						break
					}
				}
				if err := w.Finish(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(count*b.N)/b.Elapsed().Seconds(), "files/s")
			b.ReportMetric(float64(count*size*b.N)/b.Elapsed().Seconds()/1e6, "MB/s")
		})
	}
}
