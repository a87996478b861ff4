package nomad_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/transport"
)

func aNode(id string) *api.Node {
	return &api.Node{
		ID: id, SecretID: "x", Name: "n", Datacenter: "dc1", Status: api.NodeStatusReady, HTTPAddr: "127.0.0.1:4646",
		Attributes: map[string]string{"kernel.name": "linux", "driver.raw_exec": "1"},
		Drivers:    map[string]*api.DriverInfo{"raw_exec": {Detected: true, Healthy: true}},
		NodeResources: &api.NodeResources{
			Cpu: api.NodeCpuResources{CpuShares: 64_000_000}, Memory: api.NodeMemoryResources{MemoryMB: 64_000_000}, Disk: api.NodeDiskResources{DiskMB: 64_000_000},
		},
	}
}

// What the leader wrote and nobody can read would end every server, now and at each start.
func TestNoRequestEndsAServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, stop := start(t, dir)
	far, err := transport.Connect(s.Address(), s.Dialer())
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	many := func(n int) []string { return strings.Split(strings.Repeat("x,", n)+"x", ",") }
	for what, c := range map[string]struct {
		names  string
		change func(*api.Job)
	}{
		"a million datacenters":      {"Job.Datacenters", func(j *api.Job) { j.Datacenters = many(1_000_000) }},
		"a null scaling policy":      {"ScalingPolicies[0]", func(j *api.Job) { j.TaskGroups[0].Tasks[0].ScalingPolicies = []*api.ScalingPolicy{nil} }},
		"a null task":                {"Tasks[0]", func(j *api.Job) { j.TaskGroups[0].Tasks[0] = nil }},
		"a null volume":              {`Volumes["v"]`, func(j *api.Job) { j.TaskGroups[0].Volumes = map[string]*api.VolumeRequest{"v": nil} }},
		"a million words of a task":  {"Env", func(j *api.Job) { j.TaskGroups[0].Tasks[0].Env = mapOf(many(1_000_000)) }},
		"a million words of the job": {"Meta", func(j *api.Job) { j.Meta = mapOf(many(1_000_000)) }},
	} {
		for from, caller := range map[string]wire.Caller{"this process": s.Caller(), "the network": far} {
			j := job("poison")
			c.change(j)
			_, err := wire.JobRegister.Call(t.Context(), caller, &api.JobRegisterRequest{Job: j})
			for range 10 { // a busy machine may still decode the large request before
				if !errors.Is(err, fault.Exhausted) {
					break
				}
				_, err = wire.JobRegister.Call(t.Context(), caller, &api.JobRegisterRequest{Job: j})
			}
			tooMuch := from == "the network" && strings.Contains(what, "million") // the decoder refuses it by its own words
			if !errors.Is(err, fault.Invalid) || !tooMuch && !strings.Contains(err.Error(), c.names) {
				t.Errorf("%s from %s: %.200v", what, from, err)
			}
		}
	}
	n := aNode("11111111-0000-0000-0000-000000000000")
	n.StaleMounts = []*api.StaleMount{nil}
	if _, err := wire.NodeRegister.Call(t.Context(), far, &api.NodeRegisterRequest{Node: n}); !errors.Is(err, fault.Invalid) {
		t.Errorf("a null of a node: %v", err)
	}
	for _, round := range []string{"now", "after a restart"} {
		if err := register(t.Context(), s, "good"); err != nil {
			t.Errorf("%s: %v", round, err)
		}
		stop()
		s, stop = start(t, dir)
	}
}

func mapOf(words []string) map[string]string {
	m := map[string]string{}
	for i := range words {
		m[words[i]+string(rune(0x4e00+i%20000))+string(rune(0x4e00+i/20000))] = "v"
	}
	return m
}
