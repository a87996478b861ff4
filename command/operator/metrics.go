package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
)

// Metrics is "nomad operator metrics".
func Metrics(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show the metrics of the contacted agent", Format: true,
		Description: "Without a flag the metrics are printed as JSON in one line.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Usage: "`format`: json or prometheus, which the agent must have enabled"},
			&cli.BoolFlag{Name: "pretty", Usage: "indent the JSON"},
		},
		Run: showMetrics,
	}.Command()
}

func showMetrics(ctx context.Context, s *session.Session) error {
	format := s.String("format")
	switch {
	case format != "" && format != "json" && format != "prometheus":
		return fault.New(fault.Invalid, "format %q is neither json nor prometheus", format)
	case format == "prometheus" && (s.Formatted() || s.Bool("pretty")):
		return fault.New(fault.Invalid, "-format=prometheus is not JSON: leave out -json, -t and -pretty")
	}
	params := url.Values{}
	if format != "" {
		params.Set("format", format)
	}
	var body bytes.Buffer
	if err := s.Raw(ctx, "GET", []string{"metrics"}, params, &body); err != nil {
		return session.Failed("querying metrics", err)
	}
	switch {
	case s.Formatted():
		var doc map[string]any
		if err := json.Unmarshal(body.Bytes(), &doc); err != nil {
			return fmt.Errorf("the metrics of the agent are not JSON: %w", err)
		}
		return s.Document(doc)
	case s.Bool("pretty"):
		var out bytes.Buffer
		if err := json.Indent(&out, body.Bytes(), "", "  "); err != nil {
			return fmt.Errorf("the metrics of the agent are not JSON: %w", err)
		}
		body = out
	}
	s.Print(string(bytes.TrimRight(body.Bytes(), "\n")) + "\n")
	return nil
}
