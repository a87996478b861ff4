package supervise

import (
	"os"
	"testing"
)

func TestParseStat(t *testing.T) {
	line := "42 (a) (b) R 7 42 41 0 -1 4194304 1 0 0 0 10 20 0 0 20 0 1 0 777 1000 5 18446744073709551615"
	got, ok := parseStat([]byte(line))
	if want := (process{pid: 42, parent: 7, session: 41, state: 'R', ticks: 777, utime: 10, stime: 20, rssPages: 5}); !ok || got != want {
		t.Errorf("%+v %v, want %+v", got, ok, want)
	}
	for _, bad := range []string{"", "42", "42 (a", "42 (a) R 1 2", ")(", "x (a) R 7 42 41 0 -1 4194304 1 0 0 0 10 20 0 0 20 0 1 0 777 1000 5 1"} {
		if _, ok := parseStat([]byte(bad)); ok {
			t.Errorf("%q parsed", bad)
		}
	}
}

func TestAliveNeedsTheStartTime(t *testing.T) {
	ticks, ok := startTicks(os.Getpid())
	if !ok || !alive(os.Getpid(), ticks) || alive(os.Getpid(), ticks+1) {
		t.Error("a process is known by its pid and its start time")
	}
}
