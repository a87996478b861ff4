package jobs

import (
	"os"
	"os/exec"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec"
)

// The parser runs in a goroutine of its own, where net/http recovers nothing.
func TestAParserThatPanicsEndsNoAgent(t *testing.T) {
	if os.Getenv("PARSER_PANICS") != "" {
		p := newParses()
		p.parse = func(jobspec.Input) (*api.Job, error) { panic("a mistake of the parser") }
		for range parsesMax + 1 { // its turn is given back
			if _, err := p.parseJob(t.Context(), api.JobsParseRequest{JobHCL: "x"}); fault.Of(err) != fault.Internal {
				t.Error(err)
			}
		}
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestAParserThatPanicsEndsNoAgent$")
	child.Env = append(os.Environ(), "PARSER_PANICS=1")
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v: %.200s", err, out)
	}
}
