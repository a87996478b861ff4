package rows

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/view"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// FailuresWithScores is Failures with how the nodes were rated that came into question.
func FailuresWithScores(groups map[string]*api.AllocationMetric) string {
	var b strings.Builder
	for _, g := range sortedKeys(groups) {
		b.WriteString(Failures(map[string]*api.AllocationMetric{g: groups[g]}))
		m := groups[g]
		b.WriteString(view.Indent(fmt.Sprintf("* %s evaluated, %d filtered, %d exhausted\n", nodes(m.NodesEvaluated), m.NodesFiltered, m.NodesExhausted), 2))
		if scores := Scores(m, true); scores != "" {
			b.WriteString("\n" + view.Indent(scores, 2))
		}
	}
	return b.String()
}

// Failures describes per group why allocations were not placed.
func Failures(groups map[string]*api.AllocationMetric) string {
	var b strings.Builder
	for _, g := range sortedKeys(groups) {
		m := groups[g]
		n := m.CoalescedFailures + 1
		noun := "allocation"
		if n > 1 {
			noun = "allocations"
		}
		fmt.Fprintf(&b, "Task Group %q (failed to place %d %s):\n%s", g, n, noun, view.Indent(Reasons(m), 2))
	}
	return b.String()
}

// Reasons lists what kept nodes from taking an allocation.
func Reasons(m *api.AllocationMetric) string {
	var lines []string
	if m.NodesEvaluated == 0 {
		lines = append(lines, "No nodes were eligible for evaluation")
	}
	if m.NodesInPool == 0 && m.NodePool != "" && m.NodesEvaluated == 0 {
		lines = append(lines, fmt.Sprintf("No nodes are available in node pool %q", m.NodePool))
	}
	for _, dc := range sortedKeys(m.NodesAvailable) {
		if m.NodesAvailable[dc] == 0 {
			lines = append(lines, fmt.Sprintf("No nodes are available in datacenter %q", dc))
		}
	}
	for _, c := range sortedKeys(m.ClassFiltered) {
		lines = append(lines, fmt.Sprintf("Class %q: %s excluded by filter", c, nodes(m.ClassFiltered[c])))
	}
	for _, c := range sortedKeys(m.ConstraintFiltered) {
		lines = append(lines, fmt.Sprintf("Constraint %q: %s excluded by filter", c, nodes(m.ConstraintFiltered[c])))
	}
	if m.NodesExhausted > 0 {
		lines = append(lines, fmt.Sprintf("Resources exhausted on %s", nodes(m.NodesExhausted)))
	}
	for _, c := range sortedKeys(m.ClassExhausted) {
		lines = append(lines, fmt.Sprintf("Class %q exhausted on %s", c, nodes(m.ClassExhausted[c])))
	}
	for _, d := range sortedKeys(m.DimensionExhausted) {
		lines = append(lines, fmt.Sprintf("Dimension %q exhausted on %s", d, nodes(m.DimensionExhausted[d])))
	}
	for _, q := range m.QuotaExhausted {
		lines = append(lines, fmt.Sprintf("Quota limit hit %q", q))
	}
	return view.List(lines)
}

// Metrics describes how a placement was decided: what excluded nodes and how the others were rated.
func Metrics(m *api.AllocationMetric, long bool) string {
	if m == nil {
		return ""
	}
	out := Reasons(m)
	if scores := Scores(m, long); scores != "" {
		if out != "" {
			out += "\n"
		}
		out += scores
	}
	return out
}

// Updates is the table of what an evaluation wanted for each group.
func Updates(groups map[string]*api.DesiredUpdates) string {
	table := [][]string{{"Task Group", "Ignore", "Place", "Stop", "Migrate", "In-place", "Destructive", "Canary", "Preempt"}}
	for _, name := range sortedKeys(groups) {
		u, row := groups[name], []string{name}
		for _, n := range []uint64{u.Ignore, u.Place, u.Stop, u.Migrate, u.InPlaceUpdate, u.DestructiveUpdate, u.Canary, u.Preemptions} {
			row = append(row, strconv.FormatUint(n, 10))
		}
		table = append(table, row)
	}
	return view.Table(table...)
}

func nodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return strconv.Itoa(n) + " nodes"
}

// Scores is the table of how nodes were rated in a placement; empty when there are no scores.
func Scores(m *api.AllocationMetric, long bool) string {
	if m == nil || len(m.ScoreMetaData) == 0 {
		return ""
	}
	seen := map[string]bool{}
	for _, s := range m.ScoreMetaData {
		for name := range s.Scores {
			seen[name] = true
		}
	}
	names := sortedKeys(seen)
	table := [][]string{slices.Concat([]string{"Node"}, names, []string{"final score"})}
	for _, s := range slices.SortedStableFunc(slices.Values(m.ScoreMetaData), func(a, b *api.NodeScoreMeta) int {
		return cmp.Compare(b.NormScore, a.NormScore)
	}) {
		row := []string{view.ID(s.NodeID, long)}
		for _, n := range names {
			row = append(row, score(s.Scores[n]))
		}
		table = append(table, append(row, score(s.NormScore)))
	}
	return view.Table(table...)
}

func score(f float64) string { return strconv.FormatFloat(f, 'g', 3, 64) }
