package jobspec_test

import (
	"fmt"

	"github.com/open-nomad/open-nomad/jobspec"
)

// What the file does not say has its default; what it cannot say is an error with the place.
func ExampleParse() {
	source := []byte(`
variable "replicas" { default = 1 }

job "web" {
  group "front" {
    count = var.replicas
    task "server" {
      driver = "raw_exec"
      config { command = "/usr/bin/server" }
    }
  }
}`)
	j, err := jobspec.Parse(jobspec.Input{Path: "web.nomad.hcl", Body: source, Vars: map[string]string{"replicas": "3"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	g := j.TaskGroups[0]
	fmt.Println(j.ID, j.Type, j.Priority, g.Name, g.Count, g.Tasks[0].KillTimeout)

	_, err = jobspec.Parse(jobspec.Input{Path: "web.nomad.hcl", Body: []byte(`job "web" { prioritty = 70 }`)})
	fmt.Println(err)
	// Output:
	// web service 50 front 3 5s
	// web.nomad.hcl:1:13: Unsupported argument; An argument named "prioritty" is not expected here. Did you mean "priority"?
}
