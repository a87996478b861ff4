package findings

import (
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// codeFindings is the exit code of a report with findings; 1 is that of an error of the command.
const codeFindings = 2

// Show prints findings, each with its facts.
func Show(s *session.Session, list []*api.StorageFinding) {
	now := time.Now()
	for i, f := range list {
		if i > 0 {
			s.Println()
		}
		s.Printf("%s\n", headline(f))
		facts := [][2]string{{"Finding", f.Text}}
		add := func(name, value string) {
			if value != "" {
				facts = append(facts, [2]string{name, value})
			}
		}
		if f.Since != 0 {
			add("Since", view.When(f.Since, s.Verbose, now))
		}
		add("Tasks", f.TaskState)
		next := f.Next
		if f.NextAt != 0 {
			next = fmt.Sprintf("%s (%s)", next, view.Until(f.NextAt, now))
		}
		add("Next", next)
		add("Command", f.Command)
		if f.Repair != "" && f.Severity != api.SeverityInfo {
			add("Repair", repairs[f.Repair])
		}
		s.Print(view.Indent(view.Pairs(facts...), 2))
	}
}

// repairs describe what "volume doctor -fix" does.
var repairs = map[string]string{
	api.RepairRetry: "-fix makes the failed calls now", api.RepairUnmount: "-fix asks the node to unmount",
	api.RepairReconcile: "-fix releases claims of allocations that have ended",
}

func headline(f *api.StorageFinding) string {
	of := fmt.Sprintf("plugin %q", f.PluginID)
	if f.VolumeID != "" {
		of = fmt.Sprintf("volume %q", f.VolumeID)
		if f.Namespace != api.DefaultNamespace {
			of += fmt.Sprintf(" in namespace %q", f.Namespace)
		}
	}
	return fmt.Sprintf("[%s] %s: %s", f.Severity, f.Kind, of)
}

// Count returns the number of findings that an operator should know of.
func Count(list []*api.StorageFinding) (n int) {
	for _, f := range list {
		if f.Severity != api.SeverityInfo {
			n++
		}
	}
	return n
}

// Result is the exit code of a report: 0 without errors and warnings, else 2.
func Result(list []*api.StorageFinding) error {
	if Count(list) == 0 {
		return nil
	}
	return &session.Exit{Code: codeFindings}
}
