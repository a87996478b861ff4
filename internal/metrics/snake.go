package metrics

import (
	"strings"
	"unicode"
)

// Snake is a name in lower case with underscores: "ListByID" is "list_by_id", "ACL" is "acl".
func Snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, c := range runes {
		word := i > 0 && unicode.IsUpper(c) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if word {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
