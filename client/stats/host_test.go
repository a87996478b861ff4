package stats

import (
	"os"
	"path/filepath"
	"testing"
)

func mhz() int64 { return 2000 }

func TestRealHost(t *testing.T) {
	s, err := New(t.TempDir(), mhz).Read()
	if err != nil {
		t.Fatal(err)
	}
	if s.Memory.Total == 0 || s.Memory.Used > s.Memory.Total || s.Uptime == 0 || len(s.CPU) == 0 || s.AllocDirStats.Size == 0 {
		t.Fatalf("%+v %+v %+v", s, s.Memory, s.AllocDirStats)
	}
	if _, err := New("/does/not/exist", mhz).Read(); err == nil {
		t.Error("no error for a missing directory")
	}
}

func TestProcessorUseIsThatOfTheLastSpan(t *testing.T) {
	proc := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(proc, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("meminfo", "MemTotal: 100 kB\nMemFree: 10 kB\nMemAvailable: 40 kB\nodd\n")
	write("uptime", "12.5 9\n")
	h := New(t.TempDir(), mhz)
	h.proc = proc
	write("stat", "cpu 100 0 0 100 0 0 0 0\ncpu0 100 0 0 100 0 0 0 0\nintr 1\n")
	if _, err := h.Read(); err != nil {
		t.Fatal(err)
	}
	write("stat", "cpu 120 5 15 160 0 0 0 0\ncpu0 120 5 15 160 0 0 0 0\n")
	s, err := h.Read()
	if err != nil {
		t.Fatal(err)
	}
	if c := s.CPU[0]; c.CPU != "cpu0" || c.User != 25 || c.System != 15 || c.Idle != 60 || s.CPUTicksConsumed != 800 {
		t.Errorf("%+v, %v MHz", c, s.CPUTicksConsumed)
	}
	if s.Memory.Used != 60<<10 || s.Uptime != 12 {
		t.Errorf("%+v %d", s.Memory, s.Uptime)
	}
	write("meminfo", "MemTotal: many kB\n")
	if _, err := h.Read(); err == nil {
		t.Error("broken meminfo was believed")
	}
}
