package session

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/view"
)

// Session is one run of a verb.
type Session struct {
	*rest.Client
	cmd   *cli.Command
	Args  []string
	Out   io.Writer
	Err   io.Writer
	Input io.Reader
	// Verbose shows whole ids and more.
	Verbose bool
	live    *Live
}

var general = []struct{ name, usage string }{
	{"address", "`url` of the agent: http://, https:// or unix:// (NOMAD_ADDR)"},
	{"region", "`region` to ask (NOMAD_REGION)"},
	{"namespace", "`namespace` to ask, * for all (NOMAD_NAMESPACE)"},
	{"token", "`secret` id of the token to use (NOMAD_TOKEN)"},
	{"ca-cert", "`file` with the certificate authority (NOMAD_CACERT)"},
	{"ca-path", "`folder` with certificate authorities (NOMAD_CAPATH)"},
	{"client-cert", "`file` with our certificate (NOMAD_CLIENT_CERT)"},
	{"client-key", "`file` with our key (NOMAD_CLIENT_KEY)"},
	{"tls-server-name", "server `name` to expect (NOMAD_TLS_SERVER_NAME)"},
}

var generalSwitches = []struct{ name, usage string }{
	{"tls-skip-verify", "do not verify the server's certificate (NOMAD_SKIP_VERIFY)"},
	{"no-color", "print no colours (NOMAD_CLI_NO_COLOR)"},
	{"force-color", "print colours always (NOMAD_CLI_FORCE_COLOR)"},
}

// insecure is an old name of -tls-skip-verify.
const insecure = "insecure"

func isGeneral(name string) bool {
	return slices.ContainsFunc(general, func(g struct{ name, usage string }) bool { return g.name == name }) ||
		slices.ContainsFunc(generalSwitches, func(g struct{ name, usage string }) bool { return g.name == name }) || name == "help"
}

func generalFlags() []cli.Flag {
	var flags []cli.Flag
	for _, g := range general {
		flags = append(flags, &cli.StringFlag{Name: g.name, Usage: g.usage})
	}
	for _, g := range generalSwitches {
		flags = append(flags, &cli.BoolFlag{Name: g.name, Usage: g.usage})
	}
	return append(flags, &cli.BoolFlag{Name: insecure, Usage: "same as -tls-skip-verify", Hidden: true})
}

// connection is the environment with the flags over it.
func connection(c *cli.Command) rest.Config {
	config := rest.FromEnvironment()
	for name, to := range map[string]*string{
		"address": &config.Address, "region": &config.Region, "namespace": &config.Namespace, "token": &config.Token,
		"ca-cert": &config.TLS.CACert, "ca-path": &config.TLS.CAPath, "client-cert": &config.TLS.ClientCert,
		"client-key": &config.TLS.ClientKey, "tls-server-name": &config.TLS.ServerName,
	} {
		if c.IsSet(name) {
			*to = c.String(name)
		}
	}
	for _, name := range []string{"tls-skip-verify", insecure} {
		if c.IsSet(name) {
			config.TLS.SkipVerify = c.Bool(name)
		}
	}
	return config
}

// Verbose is the flag of verbs that can show more.
func Verbose() cli.Flag {
	return &cli.BoolFlag{Name: "verbose", Usage: "show full IDs and more details"}
}

// Detach is the flag of verbs that would wait.
func Detach() cli.Flag {
	return &cli.BoolFlag{Name: "detach", Usage: "return immediately instead of monitoring the result"}
}

// Bool, String, Strings and Int read flags.
func (s *Session) Bool(name string) bool { return s.cmd.Bool(name) }

// String reads a flag.
func (s *Session) String(name string) string { return s.cmd.String(name) }

// Strings reads a flag that may be repeated.
func (s *Session) Strings(name string) []string { return s.cmd.StringSlice(name) }

// Int reads a flag.
func (s *Session) Int(name string) int { return s.cmd.Int(name) }

// Duration reads a flag.
func (s *Session) Duration(name string) time.Duration { return s.cmd.Duration(name) }

// IsSet reports whether a flag was given.
func (s *Session) IsSet(name string) bool { return s.cmd.IsSet(name) }

// Arg is the i-th argument, or "".
func (s *Session) Arg(i int) string {
	if i < len(s.Args) {
		return s.Args[i]
	}
	return ""
}

// ID shortens an id unless the session is verbose.
func (s *Session) ID(id string) string { return view.ID(id, s.Verbose) }

// When shows a moment: its age, or the time when the session is verbose.
func (s *Session) When(ns int64) string { return view.When(ns, s.Verbose, time.Now()) }

// Print prints text of several lines to the output.
func (s *Session) Print(args ...any) {
	s.live.above(func() { fmt.Fprint(s.Out, view.Text(fmt.Sprint(args...))) })
}

// Println prints a line, as [Session.Printf] does.
func (s *Session) Println(args ...any) { s.Print(fmt.Sprintln(inline(args)...)) }

// Printf prints by format. Texts among the arguments stay within their line; what has several lines is for
// [Session.Print].
func (s *Session) Printf(format string, args ...any) { s.Print(fmt.Sprintf(format, inline(args)...)) }

// Warnf prints a line to stderr.
func (s *Session) Warnf(format string, args ...any) {
	s.live.above(func() { fmt.Fprintln(s.Err, view.Text(fmt.Sprintf(format, args...))) })
}

// inline escapes line feeds in texts that others wrote, so that none of them begins a line.
func inline(args []any) []any {
	out := slices.Clone(args)
	for i, a := range args {
		if text, ok := a.(string); ok {
			out[i] = view.Inline(text)
		}
	}
	return out
}

// Titled prints text of several lines under a title, after an empty line.
func (s *Session) Titled(title, text string) {
	s.Printf("\n%s\n", title)
	s.Print(text)
}

// Section prints a titled table after an empty line.
func (s *Session) Section(title string, rows ...[]string) { s.Titled(title, view.Table(rows...)) }

// Reason is a text of which a table shows the first line, and what it is about.
type Reason struct{ Of, Text string }

// Reasons prints, when the session is verbose, the texts that have more than one line.
func (s *Session) Reasons(list []Reason) {
	for _, r := range list {
		if text := strings.TrimSpace(r.Text); s.Verbose && strings.Contains(text, "\n") {
			s.Titled("Text of "+r.Of, view.Indent(view.Text(text), 2)+"\n")
		}
	}
}

// Formatted reports whether -json or -t was given.
func (s *Session) Formatted() bool { return s.Bool("json") || s.String("t") != "" }

// Document prints objects in the asked format.
func (s *Session) Document(v any) error {
	if t := s.String("t"); t != "" {
		return view.Template(s.Out, t, v)
	}
	return view.JSON(s.Out, v)
}

// Source reads the file of an argument; "-" is stdin.
func (s *Session) Source(path string) (name string, text []byte, err error) {
	if path == "-" {
		text, err = io.ReadAll(s.Input)
		return "stdin", text, err
	}
	text, err = os.ReadFile(path)
	if err != nil {
		return path, nil, fault.Wrap(fault.Invalid, err)
	}
	return path, text, nil
}

// KeyValues reads flags of the form key=value.
func (s *Session) KeyValues(flag string) (map[string]string, error) {
	pairs := s.Strings(flag)
	if len(pairs) == 0 {
		return nil, nil
	}
	m := make(map[string]string, len(pairs))
	for i, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, fault.New(fault.Invalid, "value %d of -%s is not key=value", i+1, flag)
		}
		m[k] = v
	}
	return m, nil
}

// answerMax bounds a reply to a question in bytes.
const answerMax = 256

// Sure asks a question unless -yes is set, and prints canceled when the reply is no.
func (s *Session) Sure(question, canceled string) (bool, error) {
	if s.Bool("yes") {
		return true, nil
	}
	sure, err := s.Confirm(question)
	if err == nil && !sure {
		s.Println(canceled)
	}
	return sure, err
}

// Confirm asks a question; only a line of "y" or "yes" is yes.
func (s *Session) Confirm(question string) (bool, error) {
	s.Printf("%s [y/N] ", question)
	answer, ended := s.line()
	if ended && answer == "" {
		s.Println()
		return false, fault.New(fault.Invalid, "no confirmation: end of input")
	}
	switch answer = strings.TrimSpace(answer); answer {
	case "y", "yes":
		return true, nil
	case "", "n", "no":
		return false, nil
	}
	switch strings.ToLower(answer) {
	case "y", "yes":
		s.Println("For confirmation, an exact 'y' or 'yes' is required.")
		return false, nil
	case "n", "no":
		return false, nil
	}
	return false, fault.New(fault.Invalid, "expected y or yes, got %q", answer)
}

// line reads one line and nothing of the next.
func (s *Session) line() (text string, ended bool) {
	var b [1]byte
	for len(text) < answerMax {
		switch n, err := s.Input.Read(b[:]); {
		case n == 1 && b[0] == '\n':
			return text, false
		case n == 1:
			text += string(b[:])
		case err != nil:
			return text, true
		}
	}
	return text, false
}

// Int64 reads a flag.
func (s *Session) Int64(name string) int64 { return s.cmd.Int64(name) }
