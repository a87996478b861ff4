package rows

import (
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/view"
)

// Deployment is one deployment with its groups.
func Deployment(d *api.Deployment, long bool) string {
	head := view.Pairs([2]string{"ID", view.ID(d.ID, long)}, [2]string{"Job ID", d.JobID},
		[2]string{"Job Version", strconv.FormatUint(d.JobVersion, 10)},
		[2]string{"Status", d.Status}, [2]string{"Description", d.StatusDescription})
	if len(d.TaskGroups) == 0 {
		return head
	}
	return head + "\nDeployed\n" + Deployed(d)
}

// Deployed counts per group; columns that are empty for all groups are left out.
func Deployed(d *api.Deployment) string {
	var reverts, canaries bool
	for _, g := range d.TaskGroups {
		reverts = reverts || g.AutoRevert
		canaries = canaries || g.DesiredCanaries > 0
	}
	row := func(name, revert, promoted, desired, canary string, rest ...string) []string {
		cells := []string{name}
		if reverts {
			cells = append(cells, revert)
		}
		if canaries {
			cells = append(cells, promoted)
		}
		cells = append(cells, desired)
		if canaries {
			cells = append(cells, canary)
		}
		return slices.Concat(cells, rest)
	}
	table := [][]string{row("Task Group", "Auto Revert", "Promoted", "Desired", "Canaries", "Placed", "Healthy", "Unhealthy", "Progress Deadline")}
	for _, name := range sortedKeys(d.TaskGroups) {
		g := d.TaskGroups[name]
		promoted := "N/A"
		if g.DesiredCanaries > 0 {
			promoted = strconv.FormatBool(g.Promoted)
		}
		table = append(table, row(name, strconv.FormatBool(g.AutoRevert), promoted, strconv.Itoa(g.DesiredTotal), strconv.Itoa(g.DesiredCanaries),
			strconv.Itoa(g.PlacedAllocs), strconv.Itoa(g.HealthyAllocs), strconv.Itoa(g.UnhealthyAllocs), view.Time(g.RequireProgressBy)))
	}
	return view.Table(table...)
}

// Deployments is the table of deployments in the order given.
func Deployments(list []*api.Deployment, long bool) string {
	if len(list) == 0 {
		return "No deployments found\n"
	}
	table := [][]string{{"ID", "Job ID", "Job Version", "Status", "Description"}}
	for _, d := range list {
		table = append(table, []string{view.ID(d.ID, long), d.JobID, strconv.FormatUint(d.JobVersion, 10), d.Status, d.StatusDescription})
	}
	return view.Table(table...)
}
