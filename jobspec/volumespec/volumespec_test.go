package volumespec_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec/volumespec"
)

const everyKeyHCL = `# every key
id          = "db"
name        = "database"
namespace   = "prod"
type        = "CSI"
plugin_id   = "ebs"
external_id = "vol-1"
snapshot_id = "snap-1"
clone_id    = "vol-0"
on_mount_dead = "restart"
on_node_loss = "wait"
fence        = "both"
fence_after  = "45s"
lease        = "2m"
write_back   = "20s"
capacity_min = "10GiB"
capacity_max = "20G"
access_mode  = "single-node-writer" # of old

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
capability { access_mode = "single-node-reader-only", attachment_mode = "block-device" }

mount_options {
  fs_type     = "ext4"
  mount_flags = ["noatime", "ro",]
}

owner {
  uid    = 1000
  gid    = 0
  mode   = "0750"
  policy = "always"
}

topology_request {
  required {
    topology { segments { "topology.ebs.csi/zone" = "a" } }
    topology {
      segments {
        rack = "R1"
      }
    }
    topology { segments {} }
  }
  preferred { topology { segments { rack = "R2" } } }
}

secrets { "user.name" = "u\"1" }
secrets = { pass = "${not interpolated}" }
secrets_from = "nomad/jobs/ebs"
parameters {
  tier = 3
  thin = true
}
context {
  text = <<-EOF
  two
    lines
  EOF
}
`

const everyKeyJSON = `{
  "id": "db", "name": "database", "namespace": "prod", "type": "csi", "plugin_id": "ebs",
  "external_id": "vol-1", "snapshot_id": "snap-1", "clone_id": "vol-0",
  "capacity_min": 10737418240, "capacity_max": "20G",
  "capability": [
    {"access_mode": "single-node-writer", "attachment_mode": "file-system"},
    {"access_mode": "single-node-reader-only", "attachment_mode": "block-device"}
  ],
  "owner": {"uid": 1000, "gid": 0, "mode": "0750", "policy": "always"}, "on_mount_dead": "restart",
  "on_node_loss": "wait", "fence": "both", "fence_after": "45s", "lease": "2m", "write_back": "20s",
  "mount_options": [{"fs_type": "ext4", "mount_flags": ["noatime", "ro"]}],
  "topology_request": {
    "required": {"topology": [{"segments": {"topology.ebs.csi/zone": "a"}}, {"segments": {"rack": "R1"}}]},
    "preferred": [{"topology": {"segments": {"rack": "R2"}}}]
  },
  "secrets_from": "nomad/jobs/ebs",
  "secrets": {"user.name": "u\"1", "pass": "${not interpolated}"},
  "parameters": {"tier": 3, "thin": true},
  "context": {"text": "two\n  lines\n"}
}`

func everyKey() *api.VolumeSpec {
	return &api.VolumeSpec{
		ID: "db", Name: "database", Namespace: "prod", PluginID: "ebs", ExternalID: "vol-1", SnapshotID: "snap-1", CloneID: "vol-0",
		RequestedCapacityMin: 10 << 30, RequestedCapacityMax: 20_000_000_000,
		RequestedCapabilities: []*api.VolumeCapability{
			{AccessMode: "single-node-writer", AttachmentMode: "file-system"},
			{AccessMode: "single-node-reader-only", AttachmentMode: "block-device"},
		},
		Owner: &api.VolumeOwner{UID: 1000, Mode: "0750", Policy: "always"}, OnMountDead: "restart",
		OnNodeLoss: "wait", Fence: "both", FenceAfter: 45 * time.Second, Lease: 2 * time.Minute, WriteBack: 20 * time.Second,
		MountOptions: &api.MountOptions{FSType: "ext4", MountFlags: []string{"noatime", "ro"}},
		RequestedTopologies: &api.TopologyRequest{
			Required:  []*api.Topology{{Segments: map[string]string{"topology.ebs.csi/zone": "a"}}, {Segments: map[string]string{"rack": "R1"}}},
			Preferred: []*api.Topology{{Segments: map[string]string{"rack": "R2"}}},
		},
		Secrets:     map[string]string{"user.name": `u"1`, "pass": "${not interpolated}"},
		SecretsFrom: "nomad/jobs/ebs",
		Parameters:  map[string]string{"tier": "3", "thin": "true"},
		Context:     map[string]string{"text": "two\n  lines\n"},
	}
}

func TestEveryKey(t *testing.T) {
	t.Parallel()
	json, err := volumespec.Parse("v.json", []byte(everyKeyJSON))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(everyKey(), json); d != "" {
		t.Errorf("JSON (-want +got):\n%s", d)
	}
	// A block of secrets beside the map would be a repeated key.
	text := strings.Replace(everyKeyHCL, "secrets = { pass", "# secrets = { pass", 1)
	hcl, err := volumespec.Parse("v.hcl", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := everyKey()
	delete(want.Secrets, "pass")
	if d := cmp.Diff(want, hcl); d != "" {
		t.Errorf("HCL (-want +got):\n%s", d)
	}
}

func TestOwnerHasADefaultPolicy(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"owner {\n uid = 5\n gid = 6\n}", `{"owner": {"uid": 5, "gid": 6}}`} {
		spec, err := volumespec.Parse("v", []byte(source))
		if err != nil || *spec.Owner != (api.VolumeOwner{UID: 5, GID: 6, Policy: api.OwnerRootMismatch}) {
			t.Errorf("%s: %+v %v", source, spec, err)
		}
	}
}

func TestMistakesNameTheirPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, source, want string }{
		{"H3 misspelt key", "id = \"a\"\n  plugin = \"p\"", `v:2:3: unknown key "plugin"; did you mean "plugin_id"?`},
		{"meant key", "capacity-min = \"1G\"", `v:1:1: unknown key "capacity-min"; did you mean "capacity_min"?`},
		{"swapped letters", "naem = \"1G\"", `did you mean "name"?`},
		{"key in a block", "capability {\n  mode = \"x\"\n}", `v:2:3: unknown key "capability.mode"; did you mean "access_mode"?`},
		{"twice", "id = \"a\"\nid = \"b\"", `v:2:1: id is defined twice; the first is on line 1`},
		{"twice a block", "mount_options {}\nmount_options {}", `v:2:1: mount_options is defined twice`},
		{"capacity", "capacity_min = \"10 gigs\"", `v:1:16: capacity_min: "10 gigs" is not a capacity such as "10GiB"`},
		{"negative capacity", "capacity_max = -1", `v:1:16: capacity_max: "-1" is not a capacity`},
		{"huge capacity", "capacity_max = \"9EiB\"", `"9EiB" is not a capacity`},
		{"list for a string", "id = []", `v:1:6: id: a string is needed, not a list`},
		{"mode", "capability { access_mode = \"writer\" }", `v:1:28: capability.access_mode: "writer" is not one of single-node-reader-only single-node-writer`},
		{"unknown policy", "owner {\n  uid = 1\n  gid = 1\n  policy = \"often\"\n}", `v:4:12: owner.policy: "often" is not one of root-mismatch always never`},
		{"negative id", "owner {\n  uid = -1\n  gid = 1\n}", `v:2:9: owner.uid: "-1" is not a numeric id from 0 to 4294967294`},
		{"name for an id", "owner {\n  uid = \"www\"\n  gid = 1\n}", `v:2:9: owner.uid: "www" is not a numeric id`},
		{"missing id", "id = \"a\"\nowner {\n  uid = 1\n}", `v:2:7: owner: gid is missing; 0 means root`},
		{"mode as a number", "owner {\n  uid = 1\n  gid = 1\n  mode = 0750\n}", `v:4:10: owner.mode: "0750" is not an octal mode in quotes`},
		{"mode that is not octal", "owner {\n  uid = 1\n  gid = 1\n  mode = \"0790\"\n}", `v:4:10: owner.mode: "0790" is not an octal mode`},
		{"large mode in JSON", "{\"owner\": {\"uid\": 1, \"gid\": 1,\n \"mode\": \"10000\"}}", `v:2:10: owner.mode: "10000" is not an octal mode`},
		{"dead mount", "on_mount_dead = \"panic\"", `v:1:17: on_mount_dead: "panic" is not one of ignore republish restart signal`},
		{"fence", "fence = \"wall\"", `v:1:9: fence: "wall" is not one of storage lease both`},
		{"write_back without a unit", "write_back = 5", `v:1:14: write_back: "5" is not a duration such as "30s"`},
		{"write_back longer than half of the lease", "write_back = \"31s\"\n lease = \"1m\"", `v:1:14: write_back: 31s is more than half of the lease, which is 1m0s`},
		{"type", "type = \"nfs\"", `v:1:8: type "nfs": only csi and host volumes are supported`},
		{"bare word", "id = vol", `v:1:6: "vol" is not a value: put strings in quotes`},
		{"list for a block", "secrets = [1]", `v:1:11: secrets must be a block, not a list`},
		{"nested secret", "secrets { a { b = \"c\" } }", `v:1:13: secrets.a: a string is needed, not a block`},
		{"open block", "capability {", `v:1:12: "{" is never closed`},
		{"open list", "mount_options { mount_flags = [\"a\"", `v:1:31: "[" is never closed`},
		{"label", "capability \"a\" {}", `v:1:1: capability takes no label such as "a"`},
		{"no value", "id\nname = \"b\"", `v:2:6: the previous key has no value: an equals sign`},
		{"stray brace", "}", `v:1:1: "}" closes nothing`},
		{"JSON key", "{\n  \"id\": \"a\",\n  \"pluginid\": \"p\"\n}", `v:3:3: unknown key "pluginid"; did you mean "plugin_id"?`},
		{"JSON value", "{\"capacity_min\": \"lots\"}", `v:1:18: capacity_min: "lots"`},
		{"JSON syntax", "{\"id\": }", `v:1:`},
		{"JSON tail", "{} {}", `v:1:4: unexpected text`},
		{"deep", strings.Repeat("a {", 200), `nested deeper than 100 levels`},
		{"deep JSON", strings.Repeat(`{"a":`, 200), `nested deeper than 100 levels`},
	} {
		_, err := volumespec.Parse("v", []byte(c.source))
		if err == nil || !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
	if _, err := volumespec.Parse("v", make([]byte, 2<<20)); !errors.Is(err, fault.TooLarge) {
		t.Errorf("2 MiB: %v", err)
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	t.Parallel()
	_, err := volumespec.Parse("v", []byte("ids = \"a\"\ncapacity_min = \"x\"\ntype = \"b\""))
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Fatalf("got %v", err)
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"": 0, "0": 0, "1048576": 1 << 20, "10GiB": 10 << 30, "10 gib": 10 << 30, "1.5KiB": 1536, "20G": 20e9, "1MB": 1e6,
		"1,000": 1000, "7B": 7, "9223372036854775807": 9223372036854775807,
	} {
		if got, ok := volumespec.Bytes(text); !ok || got != want {
			t.Errorf("%q: got %d %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"G", "-1", "1XB", "1..2", "10 Gi B", "9223372036854775808", "8EiB", "1e9"} {
		if got, ok := volumespec.Bytes(text); ok {
			t.Errorf("%q: got %d", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(everyKeyHCL))
	f.Add([]byte(everyKeyJSON))
	f.Add([]byte("a = <<EOF\nb"))
	f.Add([]byte("a = \"${\""))
	f.Fuzz(func(t *testing.T, source []byte) {
		spec, err := volumespec.Parse("v", source)
		if (spec == nil) == (err == nil) {
			t.Fatalf("%v and %v", spec, err)
		}
	})
}
