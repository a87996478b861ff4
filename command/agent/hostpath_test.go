package agent_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command"
	"github.com/open-nomad/open-nomad/command/agent"
)

func TestEmbeddedDriverHelpsAndNamesWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-h"}, 0, "-state-dir"}, {[]string{"-help"}, 0, "-max-volumes"}, {nil, 1, "-state-dir is missing"},
	} {
		var out bytes.Buffer
		root := command.New(agent.Hostpath())
		root.Writer, root.ErrWriter = &out, &out
		code := command.Run(t.Context(), root, append([]string{"nomad", "csi-hostpath"}, c.args...))
		if code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%v: code %d, output %s", c.args, code, out.String())
		}
	}
}
