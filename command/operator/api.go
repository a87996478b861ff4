package operator

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/mask"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// bodyLimit bounds the body of a request: what the servers take of a job.
const bodyLimit = 16 << 20

// secretHeaders are not shown.
var secretHeaders = []string{"X-Nomad-Token", "Authorization"}

// API is "nomad operator api".
func API(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "send a request to any endpoint of the API", Args: "<path> [<body>]", Min: 1, Max: 2,
		Description: "The body is the second argument, \"-\" reads it from stdin. Piped input is also used as the body.\n" +
			"The method is GET, or PUT when there is a body.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "X", Usage: "`method` of the request"},
			&cli.StringSliceFlag{Name: "H", Usage: "`header` such as \"Accept: text/plain\"; may be repeated"},
			&cli.StringFlag{Name: "filter", Usage: "return only rows that match the filter `expression`"},
			&cli.BoolFlag{Name: "dryrun", Usage: "print the request as a curl command instead of sending it"},
			&cli.BoolFlag{Name: "verbose", Usage: "print the headers of request and response to stderr"},
		},
		Run: callAPI,
	}.Command()
}

func callAPI(ctx context.Context, s *session.Session) error {
	req, err := rawRequest(s)
	if err != nil {
		return err
	}
	r, err := s.Prepare(ctx, req)
	if err != nil {
		return err
	}
	if s.Bool("dryrun") {
		return printCurl(s, r)
	}
	var answered func(*http.Response)
	if s.Bool("verbose") {
		printHead(s.Err, ">", (*mask.Masker)(nil).Text(fmt.Sprintf("%s %s", r.Method, r.URL.RequestURI())), r.Header)
		answered = func(resp *http.Response) { printHead(s.Err, "<", resp.Status, resp.Header) }
	}
	if err := s.Send(r, s.Out, answered); err != nil {
		return session.Failed("querying API", err)
	}
	s.Println()
	return nil
}

// rawRequest reads the flags and arguments.
func rawRequest(s *session.Session) (rest.RawRequest, error) {
	var req rest.RawRequest
	u, err := url.Parse(s.Arg(0))
	if err != nil {
		return req, fault.New(fault.Invalid, "path %q: %w", s.Arg(0), err)
	}
	req.Header = http.Header{}
	for i, h := range s.Strings("H") {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return req, fault.New(fault.Invalid, "value %d of -H is not \"Name: value\"", i+1)
		}
		req.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if req.Body, err = requestBody(s); err != nil {
		return req, err
	}
	req.Method = strings.ToUpper(s.String("X"))
	if req.Method == "" {
		req.Method = http.MethodGet
		if req.Body != nil {
			req.Method = http.MethodPut
		}
	}
	for _, part := range strings.Split(strings.TrimPrefix(strings.TrimPrefix(u.EscapedPath(), "/"), "v1/"), "/") {
		plain, err := url.PathUnescape(part)
		if err != nil {
			return req, fault.New(fault.Invalid, "path %q: %w", s.Arg(0), err)
		}
		req.Path = append(req.Path, plain)
	}
	if req.Params = u.Query(); s.IsSet("filter") {
		req.Params.Set("filter", s.String("filter"))
	}
	return req, nil
}

// requestBody is the second argument, or what is piped in unless the method was said.
func requestBody(s *session.Session) (io.Reader, error) {
	input := s.Input
	switch text := s.Arg(1); {
	case text != "" && text != "-":
		return strings.NewReader(text), nil
	case text == "" && (s.IsSet("X") && !writes(s.String("X")) || !piped(s.Input)):
		return nil, nil //nolint:nilnil // no body
	}
	body, err := io.ReadAll(io.LimitReader(input, bodyLimit+1))
	switch {
	case err != nil:
		return nil, session.Failed("reading the body", err)
	case len(body) > bodyLimit:
		return nil, fault.New(fault.TooLarge, "the body exceeds the limit of %d bytes", bodyLimit)
	case len(body) == 0:
		return nil, nil //nolint:nilnil // no body
	}
	return bytes.NewReader(body), nil
}

func writes(method string) bool {
	return slices.Contains([]string{http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodPatch}, strings.ToUpper(method))
}

// piped reports whether the input is a pipe or a file.
func piped(input io.Reader) bool {
	f, ok := input.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && (info.Mode()&os.ModeNamedPipe != 0 || info.Mode().IsRegular())
}

func printHead(w io.Writer, mark, first string, h http.Header) {
	fmt.Fprintf(w, "%s %s\n", mark, view.Inline(first))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		value := strings.Join(h[name], ", ")
		if slices.Contains(secretHeaders, name) {
			value = "<redacted>"
		}
		fmt.Fprintf(w, "%s %s: %s\n", mark, view.Inline(name), view.Inline(value))
	}
	fmt.Fprintln(w, mark)
}

// printCurl prints a request for a shell; secrets come from the environment there.
func printCurl(s *session.Session, r *http.Request) error {
	words := []string{"curl", "-X", r.Method}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		switch name {
		case "X-Nomad-Token":
			words = append(words, "-H", `"X-Nomad-Token: ${NOMAD_TOKEN}"`)
			continue
		case "Authorization":
			words = append(words, "-u", `"${NOMAD_HTTP_AUTH}"`)
			continue
		}
		for _, v := range r.Header[name] {
			words = append(words, "-H", quoted(name+": "+v))
		}
	}
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return session.Failed("reading the body", err)
		}
		words = append(words, "--data-binary", quoted(string(text)))
	}
	s.Println(strings.Join(append(words, quoted(r.URL.String())), " "))
	return nil
}

// quoted is a text as a word of a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
