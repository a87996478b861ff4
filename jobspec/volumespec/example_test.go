package volumespec_test

import (
	"fmt"

	"github.com/open-nomad/open-nomad/jobspec/volumespec"
)

func ExampleParse() {
	v, err := volumespec.Parse("db.volume.hcl", []byte(`
id           = "db"
type         = "csi"
plugin_id    = "hostpath"
capacity_min = "10GiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(v.ID, v.PluginID, v.RequestedCapacityMin>>30, v.RequestedCapabilities[0].AccessMode)

	_, err = volumespec.Parse("db.volume.hcl", []byte("id = \"db\"\nacces_mode = \"single-node-writer\"\n"))
	fmt.Println(err)
	// Output:
	// db hostpath 10 single-node-writer
	// db.volume.hcl:2:1: unknown key "acces_mode"; did you mean "access_mode"?
}
