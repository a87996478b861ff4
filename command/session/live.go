package session

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/open-nomad/open-nomad/command/view"
)

// Times of a [Live]: when the line of the wait appears, and how often it is drawn.
const (
	livePatience = time.Second
	liveFrame    = 120 * time.Millisecond
)

// Live is what a terminal shows while a command waits: after one second a line with what it waits for and the elapsed
// time, below a block of text that is drawn in place. What the session prints in the meantime appears above. A nil Live
// draws nothing: that is what outputs get that are no terminal.
type Live struct {
	mu    sync.Mutex
	out   io.Writer
	size  func() (width, height int)
	what  string
	began time.Time
	block string
	// drawn is how many lines are drawn; the cursor is in the last one. waits is set when that is the line of the wait.
	drawn int
	waits bool
	ended bool
	stop  chan struct{}
	done  chan struct{}
}

// Live starts to show that the command waits, until [Live.End]. One at a time is shown.
func (s *Session) Live(what string) *Live {
	f, ok := s.Out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" || s.live.running() {
		return nil
	}
	s.live = newLive(f, func() (int, int) {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 0, 0
		}
		return width, height
	}, what)
	return s.live
}

func newLive(out io.Writer, size func() (int, int), what string) *Live {
	l := &Live{out: out, size: size, what: view.Inline(what), began: time.Now(), stop: make(chan struct{}), done: make(chan struct{})}
	go l.run()
	return l
}

func (l *Live) running() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.ended
}

func (l *Live) run() {
	defer close(l.done)
	tick := time.NewTicker(liveFrame)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
			l.mu.Lock()
			switch {
			case l.waits:
				fmt.Fprint(l.out, "\r\x1b[K"+l.line())
			case time.Since(l.began) >= livePatience:
				l.erase()
				l.draw()
			}
			l.mu.Unlock()
		}
	}
}

// Block shows a text in the place of the previous one. It returns false when nothing is drawn: the caller prints lines.
func (l *Live) Block(text string) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.erase()
	l.block = view.Text(text)
	l.draw()
	return true
}

// End removes the line of the wait and leaves the whole block.
func (l *Live) End() {
	if !l.running() {
		return
	}
	close(l.stop)
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase()
	l.ended = true
	fmt.Fprint(l.out, l.block)
}

// above runs a function that prints, above the block.
func (l *Live) above(print func()) {
	if l == nil {
		print()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		print()
		return
	}
	l.erase()
	print()
	l.draw()
}

// erase removes what is drawn and leaves the cursor where it began.
func (l *Live) erase() {
	if l.drawn > 1 {
		fmt.Fprintf(l.out, "\x1b[%dA", l.drawn-1)
	}
	if l.drawn > 0 {
		fmt.Fprint(l.out, "\r\x1b[J")
	}
	l.drawn, l.waits = 0, false
}

// draw draws the block as far as it fits, and the line of the wait.
func (l *Live) draw() {
	width, height := l.size()
	if width < 1 || height < 2 {
		return
	}
	var lines []string
	if l.block != "" {
		lines = strings.Split(strings.TrimSuffix(l.block, "\n"), "\n")
	}
	// One line is for the wait, and one for the cursor of what is printed above.
	if most := height - 2; len(lines) > most {
		lines = lines[:max(most, 0)]
	}
	for i := range lines {
		lines[i] = ansi.Truncate(strings.ReplaceAll(lines[i], "\t", " "), width-1, "")
	}
	if time.Since(l.began) >= livePatience {
		lines, l.waits = append(lines, l.line()), true
	}
	l.drawn = len(lines)
	fmt.Fprint(l.out, strings.Join(lines, "\n"))
}

// line is the line of the wait.
func (l *Live) line() string {
	elapsed := time.Since(l.began)
	spinner := `|/-\`[int(elapsed/liveFrame)%4]
	width, _ := l.size()
	return ansi.Truncate(fmt.Sprintf("%c %s: %s", spinner, l.what, elapsed.Truncate(time.Second)), max(width-1, 0), "")
}
