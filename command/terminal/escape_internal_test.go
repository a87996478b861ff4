package terminal

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestEscapeSequences(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]struct {
		out   string
		ended bool
	}{
		"ls\n":            {"ls\n", false},
		"~.":              {"", true},
		"ls\r~.rest":      {"ls\r", true},
		"a~.b":            {"a~.b", false},
		"~~.\n":           {"~.\n", false},
		"~x\n~.":          {"~x\n", true},
		"~\n~.":           {"~\n", true},
		"ls\n~":           {"ls\n~", false},
		"cd ~\n~/bin/x\n": {"cd ~\n~/bin/x\n", false},
	} {
		for kind, from := range map[string]io.Reader{"whole": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in))} {
			ended := false
			got, err := io.ReadAll(newEscapeReader(from, '~', func() { ended = true }))
			if err != nil || string(got) != want.out || ended != want.ended {
				t.Errorf("%q %s: %q, ended %v, %v", in, kind, got, ended, err)
			}
		}
	}
}
