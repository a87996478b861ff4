package command_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/command"
)

// leaves are the verbs of a tree.
func leaves(c *cli.Command, path string) (out []string) {
	for _, sub := range c.Commands {
		name := strings.TrimSpace(path + " " + sub.Name)
		out = append(out, leaves(sub, name)...)
		if sub.Action != nil && len(sub.Commands) == 0 {
			out = append(out, name)
		}
	}
	return out
}

// unasked are the verbs that show nothing of a server, give on what they get as it is, or are other names of verbs.
var unasked = strings.Fields(`init version alloc-status debug eval-status exec fs inspect logs node-drain node-status plan run server-force-leave server-join server-members start stop validate`)

var unaskedPaths = []string{
	"alloc exec", "job init", "volume init", "quota init", "var init", "var lock", "operator api", "operator debug", "operator raft recover", "operator gossip keyring generate",
	"operator snapshot save", "operator snapshot inspect", "operator snapshot redact", "tls ca create", "tls ca info", "tls cert create", "tls cert info",
}

func TestEveryVerbIsShownOddAnswers(t *testing.T) {
	t.Parallel()
	for _, leaf := range leaves(command.New(), "") {
		if slices.Contains(unasked, leaf) || slices.Contains(unaskedPaths, leaf) {
			continue
		}
		if !slices.ContainsFunc(verbs, func(v string) bool { return v == leaf || strings.HasPrefix(v, leaf+" ") }) {
			t.Errorf("%s is not among the verbs", leaf)
		}
	}
}

// Scripts call verbs by the names that they once had.
func TestOldNamesOfVerbsStay(t *testing.T) {
	t.Parallel()
	all := leaves(command.New(), "")
	for _, name := range []string{"alloc-status", "eval-status", "node-drain", "node-status", "server-force-leave", "server-join", "server-members"} {
		if !slices.Contains(all, name) {
			t.Errorf("there is no %s", name)
		}
	}
}
