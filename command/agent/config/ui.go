package config

import (
	"fmt"
	"strings"
)

// UI is the web user interface that the agent serves below /ui/.
type UI struct {
	Enabled bool `hcl:"enabled"`
	// ShowCLIHints lets commands print the address of the page that shows what they printed.
	ShowCLIHints bool     `hcl:"show_cli_hints"`
	Label        UILabel  `hcl:"label"`
	Policy       UIPolicy `hcl:"content_security_policy"`
}

// UILabel is a text at the top of each page, with CSS colours.
type UILabel struct {
	Text       string `hcl:"text"`
	Background string `hcl:"background_color"`
	TextColor  string `hcl:"text_color"`
}

// UIPolicy are sources of the content security policy; an empty list leaves the default, which is stricter than that of the
// compatible system.
type UIPolicy struct {
	ConnectSrc     []string `hcl:"connect_src"`
	DefaultSrc     []string `hcl:"default_src"`
	FormAction     []string `hcl:"form_action"`
	FrameAncestors []string `hcl:"frame_ancestors"`
	ImgSrc         []string `hcl:"img_src"`
	ScriptSrc      []string `hcl:"script_src"`
	StyleSrc       []string `hcl:"style_src"`
}

// Sources lists what is configured, by directive.
func (p UIPolicy) Sources() map[string][]string {
	all := map[string][]string{}
	for directive, sources := range map[string][]string{
		"connect-src": p.ConnectSrc, "default-src": p.DefaultSrc, "form-action": p.FormAction, "frame-ancestors": p.FrameAncestors,
		"img-src": p.ImgSrc, "script-src": p.ScriptSrc, "style-src": p.StyleSrc,
	} {
		if len(sources) > 0 {
			all[directive] = sources
		}
	}
	return all
}

// wrong lists sources that would end a directive or a header.
func (u UI) wrong() (errs []error) {
	for directive, sources := range u.Policy.Sources() {
		for _, s := range sources {
			if s == "" || strings.ContainsAny(s, " ;,\t\r\n") {
				errs = append(errs, fmt.Errorf("ui.content_security_policy.%s: %q is not one source", strings.ReplaceAll(directive, "-", "_"), s))
			}
		}
	}
	return errs
}

func (u UI) shown() map[string]any {
	return map[string]any{
		"Enabled": u.Enabled, "ShowCLIHints": u.ShowCLIHints,
		"Label": map[string]any{"Text": u.Label.Text, "BackgroundColor": u.Label.Background, "TextColor": u.Label.TextColor},
		"ContentSecurityPolicy": map[string]any{
			"ConnectSrc": u.Policy.ConnectSrc, "DefaultSrc": u.Policy.DefaultSrc, "FormAction": u.Policy.FormAction,
			"FrameAncestors": u.Policy.FrameAncestors, "ImgSrc": u.Policy.ImgSrc, "ScriptSrc": u.Policy.ScriptSrc, "StyleSrc": u.Policy.StyleSrc,
		},
	}
}
