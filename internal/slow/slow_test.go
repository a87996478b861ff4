package slow_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/internal/slow"
)

func TestSlowStepsAreLogged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		takes         time.Duration
		waits, goesOn int
	}{{time.Second, 0, 0}, {10 * time.Second, 1, 1}, {time.Hour, 16, 1}} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			done := slow.Begin(hclog.New(&hclog.LoggerOptions{Output: &out}), "read it", "/x")
			time.Sleep(c.takes)
			done()
			for text, want := range map[string]int{
				`waits_for="read it" path=/x`: c.waits, `waited_for="read it" path=/x took=`: c.goesOn,
			} {
				if n := strings.Count(out.String(), text); n != want {
					t.Errorf("%s: %q is logged %d times, want %d:\n%s", c.takes, text, n, want, out.String())
				}
			}
		})
	}
}
