package program_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/program"
)

func TestFindsExecutables(t *testing.T) {
	t.Parallel()
	drivers, devices := program.Kind{Noun: "driver", Prefix: "nomad-driver-", Optional: true}, program.Kind{Noun: "device", Prefix: "nomad-device-"}
	list := func(all []program.Executable) (out []string) {
		for _, e := range all {
			out = append(out, e.Kind.Noun, e.Name, e.Path)
		}
		return out
	}
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"nomad-driver-a": 0o755, "b": 0o700, "nomad-device-a": 0o755, "README": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	got, err := program.Find(dir, drivers, devices)
	if err != nil || fmt.Sprint(list(got)) != fmt.Sprintf("[driver b %[1]s/b device a %[1]s/nomad-device-a driver a %[1]s/nomad-driver-a]", dir) {
		t.Errorf("%v %v", got, err)
	}
	if got, err := program.Find(filepath.Join(dir, "none"), drivers); len(got) != 0 || err != nil {
		t.Errorf("%v %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := program.Find(dir, drivers, devices); !errors.Is(err, fault.Conflict) {
		t.Errorf("doubled: %v", err)
	}
	if err := os.Chmod(filepath.Join(dir, "a"), 0o757); err != nil {
		t.Fatal(err)
	}
	if _, err := program.Find(dir, drivers, devices); !errors.Is(err, fault.Denied) {
		t.Errorf("writable: %v", err)
	}
}
