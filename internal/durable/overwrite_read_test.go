package durable

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A file is not read at one moment: the first copy may be one of before, and the second one of which a later writer has
// written a part. What was answered as written before the reader began must not be missed.
func TestReaderIsNotOlderThanWhatWasWrittenBeforeIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write := func(text string) []byte {
		if err := Overwrite(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return content(t, path)
	}
	write("first") // in the place of the first copy, and so are the third and the fifth
	write("second")
	third := write("third")
	write("fourth, which is answered")
	fifth := write("fifth")
	size, _ := copySize(third)
	second := blockSize + size
	torn := slices.Clone(write("sixth")[second:])
	torn[copyHeader]++
	defer func() { readFile = os.ReadFile }()
	for name, sight := range map[string][]byte{
		"the first copy is one of before":  slices.Concat(third[:second], torn),
		"the second copy is one of before": slices.Concat(fifth[:blockSize], bytes.Repeat([]byte{1}, size), third[second:]),
	} {
		looks := 0
		readFile = func(path string) ([]byte, error) {
			if looks++; looks == 1 {
				return sight, nil
			}
			return os.ReadFile(path)
		}
		got, err := Read(path)
		if err != nil || string(got) != "sixth" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A copy that stays damaged, as after the loss of its writer, keeps nobody from reading the other one.
func TestReaderDoesNotWaitForADeadWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, text := range []string{"first", "second", "third, whose writer ends"} {
		if err := Overwrite(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	raw := content(t, path)
	raw[blockSize+copyHeader]++
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(path); err != nil || string(got) != "second" {
		t.Errorf("%q, %v", got, err)
	}
}
