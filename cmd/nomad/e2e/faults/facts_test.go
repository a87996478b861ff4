package faults

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/internal/durable"
)

// row is a line of the matrix.
func (b *bed) row(number int, scenario, measured, bar string) {
	b.t.Helper()
	b.measured = true
	kit.Measured(b.t, fmt.Sprintf("fault %02d | %s | %s | %s", number, scenario, measured, bar))
}

// figure is a line of the table for a scenario that is not in the matrix.
func (b *bed) figure(scenario, measured, bar string) {
	b.t.Helper()
	b.measured = true
	kit.Measured(b.t, fmt.Sprintf("volume | %s | %s | %s", scenario, measured, bar))
}

// short prints times without noise.
func short(times ...time.Duration) string {
	var out []string
	for _, d := range times {
		out = append(out, d.Round(10*time.Millisecond).String())
	}
	return strings.Join(out, ", ")
}

// within fails the test when a measured time is above its bar. Where others use the machine too, the bar
// grows with what they take.
func (b *bed) within(what string, got, bar time.Duration) {
	b.t.Helper()
	if got <= bar {
		return
	}
	if !kit.Within(got, bar, b.crowd) {
		b.t.Errorf("%s took %v, the bar is %v", what, got.Round(time.Millisecond), bar)
		return
	}
	b.t.Logf("%s took %v, above the bar of %v on a crowded machine", what, got.Round(time.Millisecond), bar)
}

// clean ends a scenario whose jobs are all stopped: it waits until nothing is left of them and
// checks what happened meanwhile.
func (b *bed) clean() {
	b.t.Helper()
	b.Until(20*time.Second, "nothing to be left", b.left)
	b.harmless()
}

// left names what jobs left behind: claims, mounts, attachments and processes.
func (b *bed) left() error {
	for _, id := range slices.Sorted(maps.Keys(b.volumes)) {
		if n := b.Claimed(id); n > 0 {
			return fmt.Errorf("%d claims of %s", n, id)
		}
		if at := b.attached(id); len(at) > 0 {
			return fmt.Errorf("%s is attached to %q after the calls\n%s", id, at, b.history(id))
		}
	}
	for _, n := range b.nodes {
		if !n.Alive() {
			continue
		}
		if m := n.VolumeMounts(); len(m) > 0 {
			return fmt.Errorf("mounted on %s: %q", n.Name, m)
		}
		if p := n.Shells(); len(p) > 0 {
			return fmt.Errorf("%s has processes %v", n.Name, p)
		}
	}
	if left := b.containers(); len(left) > 0 {
		return fmt.Errorf("containers %q", left)
	}
	return nil
}

// history describes the calls of a volume that change something.
func (b *bed) history(volume string) string {
	out := ""
	for _, c := range b.calls(volume) {
		out += fmt.Sprintf("%s %s by %s for %s, took %v: %d %s\n", c.At.Format("15:04:05.000"), c.RPC, c.Node, c.To, c.Ended.Sub(c.At), c.Code, c.Text)
	}
	return out
}

// attached are the nodes to which the driver has attached the volume.
func (b *bed) attached(volume string) []string {
	raw, err := durable.Read(filepath.Join(b.storage, "volumes", b.volumes[volume]+".json"))
	if err != nil {
		return nil
	}
	var v struct{ Attached map[string]any }
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(v.Attached))
}

// mounted are the places at which the data of a volume is mounted below the hosts' directories.
func (b *bed) mounted(volume string) (found []string) {
	b.t.Helper()
	body, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		words := strings.Fields(line)
		if len(words) > 4 && filepath.Base(words[3]) == b.volumes[volume] && strings.HasPrefix(words[4], b.lab.Dir+"/") {
			found = append(found, words[4])
		}
	}
	return found
}

// harmless checks what must hold at any time: data, writers, and what the driver saw.
func (b *bed) harmless() {
	b.t.Helper()
	for id := range b.volumes {
		if err := oneWriter(b.journal(id)); err != nil {
			b.t.Errorf("volume %s: %v", id, err)
		}
		want, err := os.ReadFile(b.data(id, "sum"))
		if err != nil {
			continue // no task has come as far
		}
		payload, err := os.ReadFile(b.data(id, "payload"))
		if err != nil {
			b.t.Errorf("volume %s: %v", id, err)
		}
		if sum := sha256.Sum256(payload); !strings.HasPrefix(string(want), hex.EncodeToString(sum[:])) {
			b.t.Errorf("volume %s: the data does not fit its checksum", id)
		}
	}
	for _, v := range b.violations() {
		b.t.Errorf("violation: %s", v)
	}
}

// violations are what the driver saw against the rules and the scenario did not mean.
func (b *bed) violations() []string {
	raw, _ := os.ReadFile(filepath.Join(b.storage, "violations.log"))
	var found []string
	for line := range strings.Lines(string(raw)) {
		var v struct{ Kind, Volume, Node, Text string }
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			b.t.Fatalf("violation log: %v", err)
		}
		if !slices.Contains(b.allowed, v.Kind+" "+v.Node) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return append(found, script.Overlaps(b.calls(""))...)
}

// oneWriter fails when one instance beats after another one started.
func oneWriter(journal string) error {
	owner := ""
	for i, line := range strings.Split(strings.TrimSpace(journal), "\n") {
		word, id, ok := strings.Cut(line, " ")
		switch {
		case !ok:
		case word == "start":
			owner = id
		case id != owner:
			return fmt.Errorf("line %d: %s writes %q while %s holds the volume", i+1, id, word, owner)
		}
	}
	return nil
}

// stored are the volumes that the driver has.
func (b *bed) stored() []string {
	found, _ := filepath.Glob(filepath.Join(b.storage, "volumes", "*.json"))
	return found
}
