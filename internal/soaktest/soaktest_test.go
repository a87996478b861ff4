package soaktest

import "testing"

func TestRounds(t *testing.T) {
	for soak, want := range map[string]int{"": 3, "half": 7, "1": 12} {
		t.Setenv("SOAK", soak)
		if got := Rounds(3, 12); got != want {
			t.Errorf("SOAK=%q: %d rounds, want %d", soak, got, want)
		}
	}
}
