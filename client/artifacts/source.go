package artifacts

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// Artifact is one download, with its references filled in.
type Artifact struct {
	Source, Mode     string
	Destination      string
	Options, Headers map[string]string
	Insecure         bool
	// Chown makes the user of the task the owner.
	Chown bool
}

// source returns the source with the options as its query.
func (a Artifact) source() string {
	if len(a.Options) == 0 {
		return a.Source
	}
	values := url.Values{}
	for name, value := range a.Options {
		values.Set(name, value)
	}
	if strings.Contains(a.Source, "?") {
		return a.Source + "&" + values.Encode()
	}
	return a.Source + "?" + values.Encode()
}

// shown returns the source without its credentials: the user before the host and the query.
func (a Artifact) shown() string {
	s, _, _ := strings.Cut(a.Source, "?")
	from := 0
	if i := strings.Index(s, "://"); i >= 0 {
		from = i + len("://")
	}
	host, path, slash := strings.Cut(s[from:], "/")
	if i := strings.LastIndexByte(host, '@'); i >= 0 && from > 0 {
		host = host[i+1:]
	}
	if slash {
		host += "/" + path
	}
	return s[:from] + host
}

const (
	// secretMin is the length from which a value is hidden in errors: shorter ones would garble them.
	secretMin = 4
	textMax   = 600
)

// plainOptions are the options whose values are no secrets.
var plainOptions = []string{"archive", "checksum", "depth", "filename", "ref", "region", "rev", "version"}

// hide returns text as one short line without the credentials of the artifact.
func (a Artifact) hide(text string) string {
	secrets := slices.Collect(maps.Values(a.Headers))
	collect := func(values url.Values) {
		for name, list := range values {
			if !slices.Contains(plainOptions, name) {
				secrets = append(secrets, list...)
			}
		}
	}
	for name, value := range a.Options {
		collect(url.Values{name: {value}})
	}
	bare, query, _ := strings.Cut(a.Source, "?")
	if values, err := url.ParseQuery(query); err == nil {
		collect(values)
	}
	if _, after, ok := strings.Cut(bare, "://"); ok {
		host, _, _ := strings.Cut(after, "/")
		if i := strings.LastIndexByte(host, '@'); i >= 0 {
			user, password, _ := strings.Cut(host[:i], ":")
			secrets = append(secrets, user+":"+password, password)
		}
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, s := range secrets {
		for _, form := range []string{s, url.QueryEscape(s), url.PathEscape(s)} {
			if len(form) >= secretMin {
				text = strings.ReplaceAll(text, form, "<redacted>")
			}
		}
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar }), " ")
	if len(text) > textMax {
		text = strings.ToValidUTF8(text[:textMax], "") + "…"
	}
	return text
}
