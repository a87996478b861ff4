package job

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/view"
)

// marks stand before what was added, deleted and edited.
var marks = map[string]string{"Added": "+  ", "Deleted": "-  ", "Edited": "+/-", "None": "   "}

func mark(kind string) string {
	if m, ok := marks[kind]; ok {
		return m
	}
	return "   "
}

// diffText prints a difference between two versions of a job. The updates describe per group what a plan would do;
// without them, unchanged parts are left out.
func diffText(d *api.JobDiff, updates map[string]*api.DesiredUpdates) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s Job: %q\n", mark(d.Type), d.ID)
	attributes(&b, d.Fields, d.Objects, 0)
	for _, g := range d.TaskGroups {
		if updates == nil && g.Type == "None" && len(g.Updates) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s Task Group: %q%s\n", mark(g.Type), g.Name, groupNote(g, updates[g.Name]))
		attributes(&b, g.Fields, g.Objects, 2)
		for _, t := range g.Tasks {
			if updates == nil && t.Type == "None" && len(t.Annotations) == 0 {
				continue
			}
			fmt.Fprintf(&b, "  %s Task: %q%s\n", mark(t.Type), t.Name, annotated(t.Annotations))
			if t.Type != "None" {
				attributes(&b, t.Fields, t.Objects, 4)
			}
		}
	}
	return b.String()
}

// groupNote counts what happens to a group: by its own updates, else by the plan.
func groupNote(g *api.TaskGroupDiff, u *api.DesiredUpdates) string {
	var parts []string
	add := func(n uint64, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	if len(g.Updates) > 0 {
		for _, what := range slices.Sorted(keysOf(g.Updates)) {
			add(g.Updates[what], what)
		}
	} else if u != nil {
		add(u.Place, "create")
		add(u.Stop, "destroy")
		add(u.Migrate, "migrate")
		add(u.Canary, "canary")
		add(u.InPlaceUpdate, "in-place update")
		add(u.DestructiveUpdate, "create/destroy update")
		add(u.Preemptions, "preempt")
		add(u.RescheduleNow, "reschedule now")
		add(u.RescheduleLater, "reschedule later")
		add(u.Disconnect, "disconnect")
		add(u.Reconnect, "reconnect")
		add(u.Ignore, "ignore")
	}
	return annotated(parts)
}

func keysOf(m map[string]uint64) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// attributes prints fields and nested blocks, names aligned.
func attributes(b *strings.Builder, fields []*api.FieldDiff, objects []*api.ObjectDiff, indent int) {
	pad := strings.Repeat(" ", indent)
	width := 0
	for _, f := range fields {
		width = max(width, utf8.RuneCountInString(view.Inline(f.Name)))
	}
	for _, f := range fields {
		fmt.Fprintf(b, "%s%s %s:%s %s%s\n", pad, mark(f.Type), view.Inline(f.Name),
			strings.Repeat(" ", width-utf8.RuneCountInString(view.Inline(f.Name))), change(f), annotated(f.Annotations))
	}
	for _, o := range objects {
		fmt.Fprintf(b, "%s%s %s {\n", pad, mark(o.Type), view.Inline(o.Name))
		attributes(b, o.Fields, o.Objects, indent+4)
		fmt.Fprintf(b, "%s    }\n", pad)
	}
}

func change(f *api.FieldDiff) string {
	switch f.Type {
	case "Added":
		return fmt.Sprintf("%q", f.New)
	case "Deleted":
		return fmt.Sprintf("%q", f.Old)
	case "Edited":
		return fmt.Sprintf("%q => %q", f.Old, f.New)
	}
	return fmt.Sprintf("%q", f.New)
}

func annotated(notes []string) string {
	if len(notes) == 0 {
		return ""
	}
	return " (" + view.Inline(strings.Join(notes, ", ")) + ")"
}
