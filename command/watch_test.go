package command_test

import "testing"

func TestWatchNeedsATerminal(t *testing.T) {
	run(t, newAgent(t, nil), "", "watch").want(t, 1, "needs a terminal", "nomad job status")
}
