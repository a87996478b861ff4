package commandtext_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/commandtext"
)

// What is printed can be pasted into a shell.
func TestRemediesAreCommands(t *testing.T) {
	t.Parallel()
	claim := &api.VolumeClaim{Namespace: "team", VolumeID: "v", NodeID: "n1", JobID: "web app"}
	for got, want := range map[string]string{
		commandtext.Claim(claim, true, false):                                                    "nomad job stop -namespace team 'web app'",
		commandtext.Claim(claim, false, true):                                                    "nomad volume detach -force -namespace team v n1",
		commandtext.Claim(claim, false, false):                                                   "nomad volume detach -namespace team v n1",
		commandtext.Kill("team", "a1"):                                                           "nomad alloc signal -s SIGKILL -namespace team a1",
		commandtext.DetachExternal("p", "it's", "n1"):                                            `nomad volume detach -force -plugin p -external-id 'it'\''s' n1`,
		commandtext.Delete("default", "v"):                                                       "nomad volume delete v",
		commandtext.Forget("default", "v"):                                                       "nomad volume deregister -force v",
		commandtext.Snapshot(&api.SnapshotIntent{PluginID: "p", Name: "a b"}):                    "nomad volume snapshot delete p 'a b'",
		commandtext.Snapshot(&api.SnapshotIntent{PluginID: "p", Name: "a b", SnapshotID: "s-1"}): "nomad volume snapshot delete p s-1",
		commandtext.ForgetSnapshot("p", "s"):                                                     "nomad volume snapshot delete -force p s",
	} {
		if got != want {
			t.Errorf("%s, wanted %s", got, want)
		}
	}
}
