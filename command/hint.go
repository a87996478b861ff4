package command

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/view"
)

// Marks of requests that need no capability: a management token, or any token that is valid.
const (
	management = ""
	valid      = "-"
)

// needed are the capabilities of reads and of writes by the beginning of a path; the longest that fits counts.
var needed = map[string]struct{ read, write string }{
	"jobs":              {"list-jobs", "submit-job"},
	"job":               {"read-job", "submit-job"},
	"scaling":           {"list-scaling-policies", management},
	"allocation":        {"read-job", "alloc-lifecycle"},
	"client/allocation": {"read-job", "alloc-lifecycle"},
	"client/fs":         {"read-fs", management},
	"client/fs/logs":    {"read-logs", management},
	"client/stats":      {"node:read", management},
	"client/identity":   {"node:read", "node:write"},
	"acl/identity":      {management, "node:write"},
	"evaluation":        {"read-job", management},
	"deployment":        {"read-job", "submit-job"},
	"volumes":           {"csi-list-volume", "csi-write-volume"},
	"volume":            {"csi-read-volume", "csi-write-volume"},
	"volumes/doctor":    {"csi-read-volume", management},
	"plugins":           {"plugin:list", management},
	"plugins/doctor":    {"plugin:read", management},
	"plugin":            {"plugin:read", management},
	"node":              {"node:read", "node:write"},
	"agent":             {"agent:read", "agent:write"},
	"agent/members":     {"node:read", management},
	"operator":          {"operator:read", "operator:write"},
	"operator/keyring":  {"operator:keyring-read", "operator:keyring-rotate"},
	"operator/snapshot": {"operator:snapshot-save", management},
	"operator/raft":     {management, management},
	"quota":             {"quota:read", "quota:write"},
	"namespace":         {"list-jobs", management},
	"system":            {management, management},
	"acl":               {management, management},
	"acl/token/self":    {valid, management},
	"acl/policy/self":   {valid, management},
	"acl/explain":       {valid, management},
}

// hint is the next step after a request that lacked a permission, or "".
func hint(err error) string {
	var e *rest.Error
	if !errors.As(err, &e) || e.Code != http.StatusForbidden || e.Text != "Permission denied" {
		return ""
	}
	if path, found := strings.CutPrefix(e.Path, "var/"); found {
		capability := map[string]string{http.MethodGet: "read", http.MethodDelete: "destroy"}[e.Method]
		return fmt.Sprintf("The rule that decides: nomad acl explain -namespace %s -variable %s %s\n",
			view.Inline(cmp.Or(e.Namespace, api.DefaultNamespace)), view.Inline(path), cmp.Or(capability, "write"))
	}
	best, capability := "", management
	for path, of := range needed {
		if strings.HasPrefix(e.Path, path) && len(path) > len(best) {
			best, capability = path, of.write
			if e.Method == http.MethodGet {
				capability = of.read
			}
		}
	}
	switch {
	case best == "":
		return ""
	case capability == valid:
		return "The token is unknown or has expired, see -token and NOMAD_TOKEN; or -accessor names a foreign token, which needs a management token\n"
	case capability == management:
		return "This needs a management token. Show the own token: nomad acl token self\n"
	case !strings.Contains(capability, ":") && e.Namespace != "" && e.Namespace != api.AllNamespaces:
		capability = "-namespace " + view.Inline(e.Namespace) + " " + capability
	}
	return "The rule that decides: nomad acl explain " + capability + "\n"
}
