package taskenv

import (
	"slices"
	"strings"
)

// denied are variables of the agent that tasks never inherit: credentials and what steers the agent itself.
var denied = []string{
	"CONSUL_TOKEN", "CONSUL_HTTP_TOKEN", "CONSUL_HTTP_TOKEN_FILE", "NOMAD_TOKEN", "VAULT_TOKEN", "NOMAD_LICENSE",
	"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS",
	"AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PASSWORD", "AZURE_PASSWORD", "GOOGLE_CREDENTIALS", "AWS_CONTAINER_AUTHORIZATION_TOKEN", // of keyring blocks
}

// Inherited turns the environment of the agent, as os.Environ gives it, into what tasks may inherit.
// A denylist that is not nil replaces the built-in one; a trailing "*" stands for any rest.
func Inherited(environ, denylist []string) map[string]string {
	if denylist == nil {
		denylist = denied
	}
	out := make(map[string]string, len(environ))
	for _, kv := range environ {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" || strings.HasPrefix(name, "NOMAD_") || kept(denylist, name) {
			continue
		}
		out[name] = value
	}
	return out
}

func kept(denylist []string, name string) bool {
	return slices.ContainsFunc(denylist, func(d string) bool {
		prefix, open := strings.CutSuffix(d, "*")
		return name == d || open && strings.HasPrefix(name, prefix)
	})
}
