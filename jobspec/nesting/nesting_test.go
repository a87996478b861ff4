package nesting_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec/nesting"
)

// The parsers recurse into chains: one of 1,100 operators is refused, one of 900 is not.
func TestLongChainsAreRefused(t *testing.T) {
	t.Parallel()
	chain := func(n int) []byte { return []byte("x = 1" + strings.Repeat(" + 1", n) + "\n") }
	if err := nesting.Check("job.hcl", chain(900)); err != nil {
		t.Errorf("a chain of 900: %v", err)
	}
	if err := nesting.Check("job.hcl", chain(1100)); !errors.Is(err, fault.Invalid) {
		t.Errorf("a chain of 1,100: %v", err)
	}
}
