package templates

import (
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/lazy"
)

var variableName = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_.\-]*$`)

// ParseEnv reads the variables of a rendered template with env = true: lines NAME=value, with comments that begin with #. A value in
// single quotes is taken as it is; in double quotes, \n, \t, \", \\, \u0041 and the like are replaced.
func ParseEnv(text string) (map[string]string, error) {
	out := map[string]string{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, found := strings.Cut(line, "=")
		name = strings.TrimSpace(strings.TrimPrefix(name, "export "))
		if !found || !variableName().MatchString(name) {
			return nil, fault.New(fault.Invalid, "line %d is not of the form NAME=value", i+1)
		}
		v, err := parseValue(strings.TrimSpace(value))
		if err != nil {
			return nil, fault.New(fault.Invalid, "line %d: the value of %s %w", i+1, name, err)
		}
		out[name] = v
	}
	return out, nil
}

func parseValue(v string) (string, error) {
	if v == "" {
		return "", nil
	}
	switch v[0] {
	case '\'':
		end := strings.IndexByte(v[1:], '\'')
		if end < 0 {
			return "", fault.New(fault.Invalid, "has no closing quote")
		}
		return v[1 : end+1], onlyComment(v[end+2:])
	case '"':
		quoted, err := strconv.QuotedPrefix(v)
		if err != nil {
			return "", fault.New(fault.Invalid, "has no closing quote, or an escape that is not known")
		}
		text, err := strconv.Unquote(quoted)
		if err != nil {
			return "", err
		}
		return text, onlyComment(v[len(quoted):])
	}
	if i := strings.Index(v, " #"); i >= 0 {
		v = strings.TrimSpace(v[:i])
	}
	return v, nil
}

func onlyComment(rest string) error {
	if rest = strings.TrimSpace(rest); rest != "" && rest[0] != '#' {
		return fault.New(fault.Invalid, "continues after its closing quote")
	}
	return nil
}
