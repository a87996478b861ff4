package secrets

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api/mask"
)

// hideMin is the length from which a value is a secret: shorter ones are parts of any text.
const hideMin = 4

// Hide replaces the values in a text by their names, and the other forms in which programs print them; see [mask.Text].
func Hide(text string, values map[string]string) string {
	names := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(values[b]), len(values[a])), strings.Compare(a, b)) // one that contains another comes first
	})
	for _, name := range names {
		if len(values[name]) >= hideMin {
			text = strings.ReplaceAll(text, values[name], "("+name+")")
		}
	}
	return mask.Text(text, values)
}
