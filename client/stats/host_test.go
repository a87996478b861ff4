package stats

import (
	"testing"

	"github.com/shirou/gopsutil/v4/cpu"
)

func mhz() int64 { return 2000 }

func TestRealHost(t *testing.T) {
	s, err := New(t.TempDir(), mhz).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Memory.Total == 0 || s.Memory.Used > s.Memory.Total || s.Uptime == 0 || len(s.CPU) == 0 || s.AllocDirStats.Size == 0 {
		t.Fatalf("%+v %+v %+v", s, s.Memory, s.AllocDirStats)
	}
	if _, err := New("/does/not/exist", mhz).Read(t.Context()); err == nil {
		t.Error("no error for a missing directory")
	}
}

func TestProcessorUseCoversTheTimeSinceThePreviousReading(t *testing.T) {
	before := cpu.TimesStat{CPU: "cpu0", User: 100, Idle: 100}
	now := cpu.TimesStat{CPU: "cpu0", User: 120, Nice: 5, System: 10, Irq: 5, Idle: 150, Iowait: 10}
	if c := usage(before, now); c.CPU != "cpu0" || c.User != 25 || c.System != 15 || c.Idle != 60 || c.TotalPercent != 40 {
		t.Errorf("%+v", c)
	}
	if c := usage(now, now); c != nil {
		t.Errorf("%+v without time in between", c)
	}
}
