package client_test

import "testing"

// Who is told that a later process of this agent has registered, and lives to hear it, is the later one.
func TestProcessThatIsTakenForAFormerOneGoesByAnotherName(t *testing.T) {
	b := setup(t)
	b.start(t)
	b.until(t, "registered", func() bool { return b.nodes[b.node.ID()] != nil })
	b.edit(func() {
		if b.process == "" {
			t.Fatal("it has no name")
		}
		b.former = b.process
		clear(b.nodes)
	})
	b.until(t, "registered by another name", func() bool { return b.nodes[b.node.ID()] != nil && b.process != b.former })
}
