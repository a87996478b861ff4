package claims

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/lazy"
)

// mappingsMax limits the claim mappings of an auth method.
const mappingsMax = 64

// Claims are the mapped claims of one login.
type Claims struct {
	Value map[string]string
	List  map[string][]string
}

var mappedName = lazy.Regexp(`^[A-Za-z][A-Za-z0-9_]{0,127}$`)

// CheckMappings rejects mappings that [Map] or selectors cannot use.
func CheckMappings(kind string, mappings map[string]string) []error {
	var errs []error
	if len(mappings) > mappingsMax {
		errs = append(errs, fmt.Errorf("%s has %d entries; at most %d are allowed", kind, len(mappings), mappingsMax))
	}
	from := map[string]string{}
	for _, claim := range slices.Sorted(maps.Keys(mappings)) {
		name := mappings[claim]
		if _, err := path(claim); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", kind, err))
		}
		if !mappedName().MatchString(name) {
			errs = append(errs, fmt.Errorf("%s maps %q to %q: a name has a letter and then letters, digits and underscores", kind, claim, name))
		}
		if other, taken := from[name]; taken {
			errs = append(errs, fmt.Errorf("%s maps both %q and %q to %q", kind, other, claim, name))
		}
		from[name] = claim
	}
	return errs
}

// Map maps claims that were decoded from JSON with numbers as [json.Number]. Absent claims are left out.
func Map(c *api.ACLAuthMethodConfig, all map[string]any) (*Claims, error) {
	out := &Claims{Value: map[string]string{}, List: map[string][]string{}}
	for claim, name := range c.ClaimMappings {
		found, ok, err := find(all, claim)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if out.Value[name], ok = text(found); !ok {
			return nil, fault.New(fault.Denied, "claim %q is neither a string, a number nor a boolean: map it with ListClaimMappings or name a part of it", claim)
		}
	}
	for claim, name := range c.ListClaimMappings {
		found, ok, err := find(all, claim)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		elements, isList := found.([]any)
		if !isList {
			elements = []any{found}
		}
		list := make([]string, 0, len(elements))
		for _, e := range elements {
			t, ok := text(e)
			if !ok {
				return nil, fault.New(fault.Denied, "claim %q is no list of strings, numbers and booleans", claim)
			}
			list = append(list, t)
		}
		out.List[name] = list
	}
	return out, nil
}

// text returns a scalar as text.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// path splits the name of a claim into the steps that lead to it.
func path(claim string) ([]string, error) {
	if claim == "" {
		return nil, fault.New(fault.Invalid, "a claim without a name cannot be mapped")
	}
	pointer, ok := strings.CutPrefix(claim, "/")
	if !ok {
		return []string{claim}, nil
	}
	steps := strings.Split(pointer, "/")
	for i, s := range steps {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(s), "~") {
			return nil, fault.New(fault.Invalid, "claim %q is not a JSON pointer: write ~0 for ~ and ~1 for /", claim)
		}
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
	}
	return steps, nil
}

// find returns the value of a claim. A null counts as absent.
func find(all map[string]any, claim string) (any, bool, error) {
	steps, err := path(claim)
	if err != nil {
		return nil, false, err
	}
	var at any = all
	for _, step := range steps {
		switch v := at.(type) {
		case map[string]any:
			at = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false, nil
			}
			at = v[i]
		default:
			return nil, false, nil
		}
	}
	return at, at != nil, nil
}
