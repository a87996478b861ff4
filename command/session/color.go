package session

import (
	"fmt"
	"os"
	"strings"

	"github.com/open-nomad/open-nomad/command/view"
)

// Sequences of terminals.
const (
	green  = "\x1b[32m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

// Colors reports whether the output may have colours: when asked for, or when it is a terminal and neither a flag nor
// the environment disables them.
func (s *Session) Colors() bool {
	switch {
	case s.Bool("force-color"):
		return true
	case s.Bool("no-color"), os.Getenv("NOMAD_CLI_NO_COLOR") != "":
		return false
	case os.Getenv("NOMAD_CLI_FORCE_COLOR") != "":
		return true
	}
	return s.Terminal()
}

// Terminal reports whether the output is a terminal.
func (s *Session) Terminal() bool {
	f, ok := s.Out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Difference prints a difference, its lines painted by the mark that they begin with.
func (s *Session) Difference(text string) {
	text = view.Text(text)
	if s.Colors() {
		text = painted(text)
	}
	fmt.Fprint(s.Out, text)
}

func painted(difference string) string {
	lines := strings.SplitAfter(difference, "\n")
	for i, l := range lines {
		text := strings.TrimRight(l, "\n")
		color := ""
		switch mark := strings.TrimLeft(text, " "); {
		case strings.HasPrefix(mark, "+/-"):
			color = yellow
		case strings.HasPrefix(mark, "+"):
			color = green
		case strings.HasPrefix(mark, "-"):
			color = red
		default:
			continue
		}
		lines[i] = color + text + plain + l[len(text):]
	}
	return strings.Join(lines, "")
}
