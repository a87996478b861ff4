package session

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// screen is a terminal that knows what Live writes: line feeds, carriage returns, up, and erasing.
type screen struct {
	mu   sync.Mutex
	rows []string
	at   int
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := string(p)
	for text != "" {
		for len(s.rows) <= s.at {
			s.rows = append(s.rows, "")
		}
		switch {
		case strings.HasPrefix(text, "\x1b[J"), strings.HasPrefix(text, "\x1b[K"):
			s.rows = append(s.rows[:s.at], "")
			text = text[3:]
		case strings.HasPrefix(text, "\x1b["):
			n, after, _ := strings.Cut(text[2:], "A")
			s.at -= int(n[0] - '0')
			text = after
		case text[0] == '\r':
			text = text[1:]
		case text[0] == '\n':
			s.at++
			text = text[1:]
		default:
			s.rows[s.at] += text[:1]
			text = text[1:]
		}
	}
	return len(p), nil
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimRight(strings.Join(s.rows, "\n"), "\n")
}

func (s *screen) want(t *testing.T, text string) {
	t.Helper()
	if got := s.text(); got != text {
		t.Errorf("the screen shows\n%s\nwant\n%s", got, text)
	}
}

func live(s *screen, what string) *Live {
	return newLive(s, func() (int, int) { return 20, 6 }, what)
}

func TestAWaitIsShownAfterASecondAndRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		l := live(s, "creating")
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		s.want(t, "")
		time.Sleep(60*time.Second + 150*time.Millisecond)
		synctest.Wait()
		if got := s.text(); !strings.HasSuffix(got, " creating: 1m0s") {
			t.Errorf("the screen shows %q", got)
		}
		l.End()
		l.End()
		s.want(t, "")
		if l.Block("late") {
			t.Error("a block is drawn after the end")
		}
	})
}

func TestABlockIsDrawnInPlaceAndOthersPrintAbove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		l := live(s, "a wait with a long name")
		l.Block("one\ntwo\n")
		s.want(t, "one\ntwo")
		l.Block("three\nfour\x1b[2J\nfive\n")
		s.want(t, "three\nfour\\u001b[2J\nfive")
		l.above(func() { _, _ = s.Write([]byte("printed\n")) })
		s.want(t, "printed\nthree\nfour\\u001b[2J\nfive")
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if got := s.text()[strings.LastIndex(s.text(), "\n")+1:]; len(got) != 19 || !strings.Contains(got, "a wait with") {
			t.Errorf("the last line is %q", got)
		}
		long := strings.Repeat("wider than the screen\n", 9)
		l.Block(long)
		if n := strings.Count(s.text(), "\n"); n != 5 {
			t.Errorf("%d lines on a screen of 6", n+1)
		}
		l.End()
		s.want(t, "printed\n"+strings.TrimSuffix(long, "\n"))
	})
}

func TestOutputsThatAreNoTerminalGetNothing(t *testing.T) {
	var out bytes.Buffer
	s := &Session{Out: &out}
	l := s.Live("x")
	if l != nil || l.Block("text") {
		t.Error("a block is drawn")
	}
	s.Print("plain\n")
	l.End()
	if out.String() != "plain\n" {
		t.Errorf("output %q", out.String())
	}
}
