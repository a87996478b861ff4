package ids

import (
	"fmt"
	"regexp"
)

var provider = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// CheckProvider refuses a provider of secrets that cannot be the name of an executable and of a node attribute.
func CheckProvider(name string) error {
	if !provider.MatchString(name) {
		return fmt.Errorf("secret provider %.64q is not valid: use up to 64 letters, digits, _ and -", name)
	}
	return nil
}
