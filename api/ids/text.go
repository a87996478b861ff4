package ids

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Steers reports whether a character does more than stand where it is: control characters (C0, DEL and C1), and those
// that turn the direction of text.
func Steers(r rune) bool {
	return unicode.IsControl(r) || '\u202A' <= r && r <= '\u202E' || '\u2066' <= r && r <= '\u2069'
}

// CheckText refuses text of users that terminals and logs would not show as it is. field names it in the error.
func CheckText(field, text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("%s %.128q is not UTF-8", field, text)
	}
	if i := strings.IndexFunc(text, Steers); i >= 0 {
		r, _ := utf8.DecodeRuneInString(text[i:])
		return fmt.Errorf("%s %.128q contains the character %U: control and bidirectional characters are not allowed", field, text, r)
	}
	return nil
}
