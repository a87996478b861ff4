package ids

import (
	"fmt"

	"github.com/open-nomad/open-nomad/internal/lazy"
)

var (
	provider = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	variable = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// loading are variables that make shells, loaders and interpreters run other code.
	loading = lazy.Regexp(`^(?:PATH|CPI_OPERATION|IFS|ENV|SHELLOPTS|BASHOPTS|PS4|HOME|XDG_.*|BASH_.*|LD_.*|GCONV_PATH|LOCPATH|NLSPATH|GLIBC_TUNABLES` +
		`|PYTHON.*|PERL.*|RUBY.*|GEM_.*|BUNDLE_.*|NODE_(?:OPTIONS|PATH)|LUA_.*|PHP.*|JAVA_.*|JDK_.*|_JAVA_OPTIONS|CLASSPATH|GIT_.*|OPENSSL_.*|PAGER|EDITOR|SHELL)$`)
)

// CheckProvider refuses a provider of secrets that cannot be the name of an executable and of a node attribute.
func CheckProvider(name string) error {
	if !provider().MatchString(name) {
		return fmt.Errorf("secret provider %.64q is not valid: use up to 64 letters, digits, _ and -", name)
	}
	return nil
}

// CheckProviderEnv refuses names of variables for the executable of a provider: it runs with the rights of the agent, and must not
// run code that a job chooses.
func CheckProviderEnv(name string) error {
	switch {
	case !variable().MatchString(name):
		return fmt.Errorf("env %.64q is no variable: use letters, digits and _", name)
	case loading().MatchString(name):
		return fmt.Errorf("env %.64q could make the provider run other code: use a variable of another name", name)
	}
	return nil
}
