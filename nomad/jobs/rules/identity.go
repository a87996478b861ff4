package rules

import (
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/lazy"
)

var identityName = lazy.Regexp(`^[a-zA-Z0-9_-]{1,128}$`)

// identities checks the default identity of a task and the named ones.
func (c *check) identities(where string, t *api.Task) {
	if id := t.Identity; id != nil {
		at := where + ", default identity"
		c.wrong(id.TTL != 0, "%s: ttl is for named identities: the default one is valid for as long as the task runs", at)
		c.identity(at, id)
	}
	seen := map[string]bool{api.IdentityDefaultName: true}
	for _, id := range t.Identities {
		at := fmt.Sprintf("%s, identity %q", where, brief(id.Name))
		c.wrong(!identityName().MatchString(id.Name), "%s: a name has 1 to 128 letters, digits, dashes and underscores", at)
		c.wrong(seen[id.Name], "%s: the name is there twice", at)
		seen[id.Name] = true
		c.wrong(id.TTL < 0, "%s: ttl %v is negative", at, id.TTL)
		c.identity(at, id)
	}
}

func (c *check) identity(at string, id *api.WorkloadIdentity) {
	for _, aud := range id.Audience {
		c.wrong(aud == "", "%s: an audience is empty", at)
		c.wrong(aud == api.IdentityNodeAudience || aud == api.IdentityIntroductionAudience, "%s: audience %q is reserved for nodes", at, aud)
	}
	c.oneOf(id.ChangeMode, []string{"", "noop", "signal", "restart"}, "%s: change_mode", at)
	c.wrong(id.ChangeMode == "signal" && id.ChangeSignal == "", "%s: change_mode signal needs change_signal", at)
	c.wrong(id.ChangeMode != "signal" && id.ChangeSignal != "", "%s: change_signal needs change_mode signal", at)
	c.signal(at+": change_signal", id.ChangeSignal)
	c.wrong(id.Filepath != "" && !id.File, "%s: filepath needs file", at)
	c.wrong(outside(id.Filepath), "%s: filepath %q is outside of the allocation", at, id.Filepath)
	for i, claim := range id.ExtraClaims {
		c.wrong(claim == "" || slices.Contains(id.ExtraClaims[:i], claim), "%s: extra claim %q is empty or there twice", at, claim)
	}
}

func identityWarnings(g *api.TaskGroup, t *api.Task) (w []string) {
	for _, id := range t.Identities {
		warn := func(is bool, text string) {
			if is {
				w = append(w, fmt.Sprintf("task %q of group %q: identity %q %s", t.Name, g.Name, id.Name, text))
			}
		}
		warn(id.TTL == 0, "has no ttl: it is valid for as long as the task runs")
		warn(id.Env && id.TTL > 0 && id.ChangeMode != "restart", "in the environment grows old unless change_mode is restart")
		warn(len(id.Audience) == 0, "has no aud: third parties cannot check whom it is for")
		warn(len(id.Audience) > 1, "has several audiences: each of them can use it at the others")
		warn(id.ServiceName != "", "has a service_name, which is ignored: it is for identities of services")
	}
	return w
}
