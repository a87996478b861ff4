package main

import "syscall"

const (
	xfsMagic = 0x58465342
	// chunk is how much of a file is under way at once; files no larger than small are not waited for.
	chunk = 16 << 20
	small = 1 << 20

	depthMax = 256

	rangeWrite = 2
	rangeWait  = 1 | 4

	direntType, direntName = 18, 19
	typeDir, typeFile      = 4, 8
)

// synced writes a file system's data back. With XFS it can be stopped at any moment only when it is done in small
// parts: a part that has begun to write a file continues although the file system was shut down.
func (l *lease) synced(path string) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer syscall.Close(fd)
	var fs syscall.Statfs_t
	var st syscall.Stat_t
	if syscall.Fstatfs(fd, &fs) == nil && fs.Type == xfsMagic && syscall.Fstat(fd, &st) == nil && !l.writeDir(fd, st.Dev, 0) {
		return
	}
	_, _, _ = syscall.Syscall(sysSyncfs, uintptr(fd), 0, 0)
}

// writeDir writes back all files below an open directory; false means that time is up. What is deeper than depthMax
// is left to the file system: each level holds a descriptor.
func (l *lease) writeDir(dir int, dev uint64, depth int) bool {
	if depth == depthMax {
		return true
	}
	b := make([]byte, 16<<10)
	for {
		n, err := syscall.ReadDirent(dir, b)
		if err != nil || n <= 0 {
			return true
		}
		for at := 0; at+direntName < n; {
			size := int(b[at+16]) | int(b[at+17])<<8
			if size < direntName {
				return true
			}
			name := b[at+direntName : at+size]
			for i := range name {
				if name[i] == 0 {
					name = name[:i]
					break
				}
			}
			if !l.writeEntry(dir, string(name), b[at+direntType], dev, depth) {
				return false
			}
			at += size
		}
	}
}

func (l *lease) writeEntry(dir int, name string, kind byte, dev uint64, depth int) bool {
	if kind != typeFile && kind != typeDir || name == "." || name == ".." {
		return true
	}
	if l.overdue() {
		return false
	}
	fd, err := syscall.Openat(dir, name, syscall.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	switch {
	case syscall.Fstat(fd, &st) != nil || st.Dev != dev:
		return true
	case kind == typeDir:
		return l.writeDir(fd, dev, depth+1)
	}
	how := uintptr(rangeWrite)
	if st.Size > small {
		how |= rangeWait
	}
	for off := int64(0); off < st.Size; off += chunk {
		if l.overdue() {
			return false
		}
		_, _, _ = syscall.Syscall6(syscall.SYS_SYNC_FILE_RANGE, uintptr(fd), uintptr(off), chunk, how, 0, 0)
	}
	return true
}

// distinct leaves out paths of a file system that another one of them shows.
func distinct(paths []string) (out []string) {
	table, seen := mountTable(), []string{}
	for _, p := range paths {
		dev := ""
		eachMount(table, func(_, d, _, at string) {
			if at == p {
				dev = d
			}
		})
		if dev != "" && !listed(dev, seen) {
			seen, out = append(seen, dev), append(out, p)
		}
	}
	return out
}
