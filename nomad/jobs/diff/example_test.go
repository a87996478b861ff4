package diff_test

import (
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/jobs/diff"
)

func ExampleJobs() {
	before := &api.Job{ID: "web", Priority: 50, TaskGroups: []*api.TaskGroup{{Name: "front", Count: 1}}}
	after := &api.Job{ID: "web", Priority: 50, TaskGroups: []*api.TaskGroup{{Name: "front", Count: 3}}}

	d := diff.Jobs(before, after)
	fmt.Println(d.Type)
	for _, g := range d.TaskGroups {
		for _, f := range g.Fields {
			if f.Type == diff.Edited {
				fmt.Println(g.Name, f.Name, f.Old, f.New)
			}
		}
	}
	fmt.Println(diff.Same(before, after))
	// Output:
	// Edited
	// front Count 1 3
	// false
}
