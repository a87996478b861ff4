package view_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/view"
)

func TestTableAlignsByRunes(t *testing.T) {
	t.Parallel()
	got := view.Table([]string{"ID", "Name", "Note"}, []string{"1", "größe", "x"}, []string{"22", "b", ""})
	if want := "ID  Name   Note\n1   größe  x\n22  b      \n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPairs(t *testing.T) {
	t.Parallel()
	if got, want := view.Pairs([2]string{"ID", "1"}, [2]string{"Mount Options", ""}), "ID            = 1\nMount Options = <none>\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAgesHaveTwoUnits(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000_000, 0)
	for d, want := range map[time.Duration]string{
		0: "0s ago", 999 * time.Millisecond: "0s ago", 59 * time.Second: "59s ago", time.Minute: "1m ago", 90 * time.Second: "1m30s ago",
		time.Hour + 30*time.Second: "1h ago", 25 * time.Hour: "1d1h ago", 40 * 24 * time.Hour: "1mo10d ago", 400 * 24 * time.Hour: "1y1mo ago", -5 * time.Second: "in 5s",
	} {
		if got := view.Ago(now.Add(-d).UnixNano(), now); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
	if got := view.Ago(0, now); got != "N/A" {
		t.Errorf("never: %q", got)
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1000000: "977 KiB", 5000000: "4.8 MiB", 1 << 30: "1.0 GiB", 252 << 30: "252 GiB"} {
		if got := view.Bytes(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	if view.ID("1234567890", false) != "12345678" || view.ID("1234567890", true) != "1234567890" || view.ID("12", false) != "12" {
		t.Error("ids are cut wrongly")
	}
}

func TestBadTemplates(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{{.Nope", "{{.Nope}}", "{{nope}}"} {
		if err := view.Template(&bytes.Buffer{}, text, struct{ ID string }{}); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

func TestCellsOfSeveralLinesShowTheFirst(t *testing.T) {
	t.Parallel()
	got := view.Table([]string{"A", "B"}, []string{"one\ntwo", "\x1b[31mred\ttail\n"}, []string{"\nx\n \n", "y"})
	if want := "A        B\none ...  \\u001b[31mred tail\nx        y\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := view.Pairs([2]string{"K", "one\ntwo\x07\n"}), "K = one\n    two\\u0007\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
