package commands_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

// asking has a job that asks for the volume.
func (b *bed) asking(id, kind, volume string, change ...func(*api.Job)) {
	b.t.Helper()
	b.edit(func(tx *state.Txn) error {
		j := &api.Job{ID: id, Namespace: "default", Type: kind, Priority: 7, TaskGroups: []*api.TaskGroup{
			{Name: "other"},
			{Name: "g", Volumes: map[string]*api.VolumeRequest{"data": {Type: api.VolumeTypeCSI, Source: volume}}},
		}}
		for _, f := range change {
			f(j)
		}
		tx.PutJob(j)
		return nil
	})
}

// evaluated counts the evaluations of the job, which it forgets.
func (b *bed) evaluated(job string) (n int) {
	b.t.Helper()
	b.edit(func(tx *state.Txn) error {
		for e := range b.state.Read().EvalsByJob("default", job) {
			if n++; e.Status != api.EvalStatusPending || e.Priority != 7 || e.TriggeredBy != api.TriggerJobRegister {
				b.t.Errorf("evaluation %+v", e)
			}
			tx.DeleteEval(e.ID)
		}
		return nil
	})
	return n
}

func in(zone string) func(*api.VolumeSpec) {
	return func(s *api.VolumeSpec) {
		s.RequestedTopologies = &api.TopologyRequest{Required: []*api.Topology{{Segments: map[string]string{"zone": zone}}}}
	}
}

// A system job leaves the nodes out on which a volume cannot be used, and waits for none of them.
func TestSystemJobsAreLookedAtWhenTheirVolumeComesToOtherNodes(t *testing.T) {
	t.Parallel()
	anew := func(b *bed, change ...func(*api.VolumeSpec)) {
		b.must(&commands.Deregister{Namespace: "default", ID: "v"})
		b.register("v", "x", change...)
	}
	for name, c := range map[string]struct {
		before []func(*api.VolumeSpec)
		what   func(*bed)
		want   int
	}{
		"another topology": {[]func(*api.VolumeSpec){in("a")}, func(b *bed) { anew(b, in("b")) }, 1},
		"another plugin": {nil, func(b *bed) {
			b.twoPlugins("d", "e")
			anew(b, of("q"))
		}, 1},
		"a first topology": {nil, func(b *bed) { b.register("v", "x", in("a")) }, 1},
		"another spec's topology": {nil, func(b *bed) {
			b.register("w", "x")
			b.evaluated("j")
			b.register("w", "x", in("a"))
		}, 1},
		"nothing new": {[]func(*api.VolumeSpec){in("a")}, func(b *bed) { b.register("v", "x", in("a")) }, 0},
		"other modes": {nil, func(b *bed) {
			b.register("v", "x", func(s *api.VolumeSpec) { s.RequestedCapabilities[0].AccessMode = api.AccessMultiNodeMultiWriter })
		}, 0},
		"created": {nil, func(b *bed) {
			b.must(&commands.Deregister{Namespace: "default", ID: "v"})
			b.create("v")
			b.evaluated("j")
			b.must(&commands.Provisioned{Answer: b.answer("v"), ExternalID: "y", Topologies: []*api.Topology{{Segments: map[string]string{"zone": "a"}}}})
		}, 1},
	} {
		for _, kind := range []string{api.JobTypeSystem, api.JobTypeSysbatch} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				b.register("v", "x", c.before...)
				b.asking("j", kind, "v")
				b.asking("stopped", kind, "v", func(j *api.Job) { j.Stop = true })
				b.asking("parent", kind, "v", func(j *api.Job) { j.ParameterizedJob = &api.ParameterizedJobConfig{} })
				b.asking("other", kind, "u")
				b.asking("service", api.JobTypeService, "v") // its blocked evaluation is woken
				c.what(b)
				if n := b.evaluated("j"); n != c.want {
					t.Errorf("%d evaluations, want %d", n, c.want)
				}
				for _, id := range []string{"stopped", "parent", "other", "service"} {
					if n := b.evaluated(id); n != 0 {
						t.Errorf("%s: %d evaluations", id, n)
					}
				}
			})
		}
	}
}
