package main

import (
	"syscall"
	"unsafe"
)

func writeFile(path, content string) bool { return write(path, content) == nil }

func write(path, content string) error {
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = syscall.Write(fd, []byte(content))
	_ = syscall.Close(fd)
	return err
}

// readFile returns the beginning of a small file, empty when it cannot be read.
func readFile(path string) string {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	var b [1024]byte
	n, _ := syscall.Read(fd, b[:])
	_ = syscall.Close(fd)
	return string(b[:max(n, 0)])
}

func listDir(path string) (names []string) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	eachName(fd, func(name string) { names = append(names, name) })
	_ = syscall.Close(fd)
	return names
}

// eachName calls do for every name in an open directory, from its beginning.
func eachName(fd int, do func(string)) {
	_, _ = syscall.Seek(fd, 0, 0)
	var b [8192]byte
	var names []string
	for {
		n, err := syscall.ReadDirent(fd, b[:])
		if err != nil || n <= 0 {
			return
		}
		_, _, names = syscall.ParseDirent(b[:n], -1, names[:0])
		for _, name := range names {
			do(name)
		}
	}
}

func unlinkat(dir int, name string) error {
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	if _, _, e := syscall.Syscall(syscall.SYS_UNLINKAT, uintptr(dir), uintptr(unsafe.Pointer(p)), 0); e != 0 {
		return e
	}
	return nil
}

func itoa(n int64) string {
	if n < 0 {
		return "-" + itoa(-n)
	}
	var b [20]byte
	i := len(b) - 1
	for ; n >= 10; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
	b[i] = byte('0' + n)
	return string(b[i:])
}

// atoi returns -1 for what is not a number.
func atoi(s string) int {
	if s == "" || len(s) > 18 {
		return -1
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return -1
		}
		n = n*10 + int(s[i]-'0')
	}
	return n
}
