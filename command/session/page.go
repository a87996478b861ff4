package session

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/fault"
)

// hints is the environment variable that disables the addresses of pages.
const hints = "NOMAD_CLI_SHOW_HINTS"

// PageFlag is the flag of verbs whose output has a page in the web user interface, see [Session.Page].
func PageFlag() cli.Flag {
	return &cli.BoolFlag{Name: "ui", Usage: "open the page of the web user interface"}
}

// PageURL is the address of a page of the web user interface; the parts of its path are escaped.
func (s *Session) PageURL(parts ...string) (string, error) {
	if strings.HasPrefix(s.Address(), "unix:") {
		return "", fault.New(fault.Invalid, "a browser cannot open %s: set -address to an http:// or https:// address of the agent", s.Address())
	}
	address := strings.TrimSuffix(s.Address(), "/") + "/ui/"
	for i, p := range parts {
		if i > 0 {
			address += "/"
		}
		address += url.PathEscape(p)
	}
	return address, nil
}

// Page opens the page that shows what the verb printed if the flag -ui is set. Without it, Page prints the address, on
// terminals only, unless the agent or the environment disables that.
func (s *Session) Page(ctx context.Context, what string, parts ...string) error {
	opens := s.Bool("ui")
	if s.Formatted() || !opens && !(s.Terminal() && s.hints(ctx)) {
		return nil
	}
	address, err := s.PageURL(parts...)
	switch {
	case opens && err == nil:
		s.Printf("Opening URL %q\n", address)
		return Browse(ctx, address)
	case opens:
		return err
	case err == nil:
		s.Printf("\n==> View %s in the Web UI: %s\n", what, address)
	}
	return nil
}

// hints reports whether addresses of pages are shown. An agent that does not show its configuration shows none.
func (s *Session) hints(ctx context.Context) bool {
	if on, err := strconv.ParseBool(os.Getenv(hints)); err == nil {
		return on
	}
	self, err := s.Self(ctx)
	if err != nil {
		return false
	}
	page, _ := self.Config["UI"].(map[string]any)
	return page["Enabled"] == true && page["ShowCLIHints"] == true
}

// Browse starts the browser of the user and does not wait for it.
func Browse(ctx context.Context, address string) error {
	name := "xdg-open"
	if runtime.GOOS == "darwin" {
		name = "open"
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), name, address)
	if err := cmd.Start(); err != nil {
		return fault.New(fault.Unavailable, "open a browser: %w; the address is %s", err, address)
	}
	go func() { _ = cmd.Wait() }()
	return nil
}
