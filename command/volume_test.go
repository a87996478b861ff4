package command_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func TestVolumeFilesBecomeVolumes(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{"volume", "init", dir + "/v.hcl"}, {"volume", "init", "-json", dir + "/v.json"}} {
		run(t, nil, "", args...).want(t, 0)
		file := args[len(args)-1]
		made := &api.VolumeWriteResponse{Volumes: []*api.VolumeDetail{{Volume: api.Volume{VolumeSpec: api.VolumeSpec{ID: "data"}}, ExternalID: "x1"}}}
		a := newAgent(t, map[string]any{"PUT /v1/volume/csi/data/create": made, "PUT /v1/volume/csi/data": made, "PUT /v1/volume/csi/other": made})
		run(t, a, "", "volume", "create", file).want(t, 0, "Created external volume x1 with ID data")
		run(t, a, "", "volume", "register", file).want(t, 0, `Volume "data" registered`)
		run(t, a, "", "volume", "register", "-id", "other", file).want(t, 0, `Volume "other" registered`)
		var body struct{ Volumes []*api.VolumeSpec }
		if err := json.Unmarshal([]byte(a.bodies["PUT /v1/volume/csi/data/create"]), &body); err != nil {
			t.Fatal(err)
		}
		v := body.Volumes[0]
		if v.ID != "data" || v.PluginID != "hostpath" || v.RequestedCapacityMin != 10<<20 || len(v.RequestedCapabilities) != 2 || v.Namespace != "default" {
			t.Errorf("%s: volume %+v", filepath.Base(file), v)
		}
	}
}

func TestCreateOfAKnownVolumeSaysThatNothingWasCreated(t *testing.T) {
	a := newAgent(t, map[string]any{"PUT /v1/volume/csi/data/create": &api.VolumeWriteResponse{
		Volumes: []*api.VolumeDetail{{Volume: api.Volume{VolumeSpec: api.VolumeSpec{ID: "data"}}, ExternalID: "x1"}}, Known: []string{"data"},
	}})
	out := run(t, a, "id = \"data\"\nname = \"v\"\nplugin_id = \"p\"\n", "volume", "create", "-")
	out.want(t, 0, `"data" was known already`, "x1", "nothing was created")
	if strings.Contains(out.out, "Created") {
		t.Errorf("it says %q", out.out)
	}
}

// TestMisspeltKeysAreErrors: nothing in a volume file is ignored.
func TestMisspeltKeysAreErrors(t *testing.T) {
	a := newAgent(t, nil)
	run(t, a, "id = \"v\"\ncapcity_min = \"1GiB\"\n", "volume", "create", "-").want(t, 1, "stdin:2", "capcity_min")
	if len(a.asked) > 0 {
		t.Errorf("asked %v", a.asked)
	}
}

func TestVolumeFilesWithoutAnID(t *testing.T) {
	a := newAgent(t, map[string]any{"PUT /v1/volume/csi/given": &api.VolumeWriteResponse{}})
	const file = "name = \"v\"\nplugin_id = \"p\"\n"
	for _, verb := range []string{"create", "register"} {
		run(t, a, file, "volume", verb, "-").want(t, 1, "stdin has no id", "-id")
	}
	if len(a.asked) > 0 {
		t.Errorf("asked %v", a.asked)
	}
	run(t, a, file, "volume", "register", "-id", "given", "-").want(t, 0, `Volume "given" registered`)
}
