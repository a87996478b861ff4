package durable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// A file that is overwritten has a block that never changes (the magic, and the size of a copy), and room for two
// copies of the content, in blocks of their own. A copy is: checksum (4 bytes), number (8), length (4), content.
const (
	blockSize  = 4096
	copyHeader = 16
	sumSize    = 4
	lengthAt   = 12
)

// magic begins no JSON.
var (
	magic = []byte("\x00copies1\n")
	sums  = crc32.MakeTable(crc32.Castagnoli)
)

// readTries is how often a file is read again that writers change meanwhile.
const readTries = 100

// Overwrite is [WriteFile] for what is written often: the older of two copies in the file is overwritten, which costs
// syncs of that data and none of the directory, and needs no room on the disk. A file that there is not yet, was written
// otherwise, or is too small is replaced by WriteFile. Callers see to it that one at a time writes; readers use [Read].
func Overwrite(path string, content []byte, mode fs.FileMode) error {
	if err := overwrite(path, content); err == nil {
		return nil
	}
	// Also after an error of the disk: what it has of the copy is not known, and a new file leaves that behind.
	return WriteFile(path, twice(content), mode)
}

var errReplace = errors.New("the file must be replaced")

func overwrite(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(f)
	if err == nil {
		err = putCopy(f, raw, content)
	}
	return errors.Join(err, f.Close())
}

func putCopy(f *os.File, raw, content []byte) error {
	size, ok := copySize(raw)
	newest, at, _ := newestCopy(raw, size)
	if !ok || at < 0 || copyHeader+len(content) > size {
		return errReplace
	}
	// Whoever wrote the newest copy may have ended before its sync: until it is on the disk the older one is all there is.
	if err := syncData(f); err != nil {
		return err
	}
	next := encodeCopy(newest.number+1, content)
	if _, err := f.WriteAt(next, int64(blockSize+(1-at)*size)); err != nil {
		return err
	}
	return syncData(f)
}

// syncData is a variable for tests.
var syncData = func(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// readFile is a variable for tests.
var readFile = os.ReadFile

// Read returns the content of a file that [Overwrite] or [WriteFile] wrote: the old one or the new one whole while
// another process writes, and after a loss of power. It is never older than what was written when Read began.
func Read(path string) ([]byte, error) {
	var before []byte
	for range readTries {
		raw, err := readFile(path)
		if err != nil || !bytes.HasPrefix(raw, magic) {
			return raw, err
		}
		size, _ := copySize(raw)
		newest, at, both := newestCopy(raw, size)
		// The copies are not read atomically. When one is not whole, another process may be writing it, and may have written
		// the other copy after it was read, unless two reads return the same bytes.
		if same := bytes.Equal(raw, before); at >= 0 && (both || same) {
			return newest.content, nil
		} else if same {
			break
		}
		before = raw
	}
	return nil, fmt.Errorf("read %s: both copies of its content are damaged, or being changed", path)
}

// copySize is the room of a copy; false means that the file has none.
func copySize(raw []byte) (int, bool) {
	if len(raw) < blockSize || !bytes.HasPrefix(raw, magic) {
		return 0, false
	}
	size := int(binary.LittleEndian.Uint32(raw[len(magic):]))
	return size, size >= blockSize && len(raw) == blockSize+2*size
}

// contentCopy is one copy; the higher number is the newer one.
type contentCopy struct {
	number  uint64
	content []byte
}

// newestCopy returns the newest whole copy and its place: 0, 1, or -1 when there is none. both is set when both are whole.
func newestCopy(raw []byte, size int) (newest contentCopy, at int, both bool) {
	at = -1
	whole := 0
	for i := range 2 {
		from := blockSize + i*size
		if size < copyHeader || len(raw) < from+size {
			break
		}
		c, ok := decodeCopy(raw[from : from+size])
		if ok {
			whole++
		}
		if ok && c.number > newest.number {
			newest, at = c, i
		}
	}
	return newest, at, whole == 2
}

func decodeCopy(b []byte) (contentCopy, bool) {
	length := int(binary.LittleEndian.Uint32(b[lengthAt:]))
	if length > len(b)-copyHeader {
		return contentCopy{}, false
	}
	b = b[:copyHeader+length]
	if crc32.Checksum(b[sumSize:], sums) != binary.LittleEndian.Uint32(b) {
		return contentCopy{}, false
	}
	return contentCopy{binary.LittleEndian.Uint64(b[sumSize:]), b[copyHeader:]}, true
}

func encodeCopy(number uint64, content []byte) []byte {
	b := make([]byte, copyHeader, copyHeader+len(content))
	binary.LittleEndian.PutUint64(b[sumSize:], number)
	binary.LittleEndian.PutUint32(b[lengthAt:], uint32(len(content)))
	b = append(b, content...)
	binary.LittleEndian.PutUint32(b, crc32.Checksum(b[sumSize:], sums))
	return b
}

// twice is a new file with one copy of the content and room for the other.
func twice(content []byte) []byte {
	size := (copyHeader + len(content) + blockSize - 1) / blockSize * blockSize
	raw := make([]byte, blockSize+2*size)
	binary.LittleEndian.PutUint32(raw[copy(raw, magic):], uint32(size))
	copy(raw[blockSize:], encodeCopy(1, content))
	return raw
}
