package commands

import (
	"reflect"
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// placeable evaluates the system jobs that ask for the volume, by whatever spec, when it can be used on other nodes than
// before. They leave out the nodes that lack its plugin or are outside its topologies, and wait for none of them.
func placeable(tx *state.Txn, old, v *api.Volume) {
	same := old != nil && old.PluginID == v.PluginID && reflect.DeepEqual(old.Provision.Topologies, v.Provision.Topologies)
	if same {
		return
	}
	for _, spec := range ledger.ExternalOf(tx, v).Specs {
		for _, j := range slices.Collect(tx.Jobs(spec.Namespace)) {
			if everywhere(j) && asks(j, spec.ID) {
				evaluate(tx, j, "placeable", api.TriggerJobRegister)
			}
		}
	}
}

// everywhere reports whether the job itself is placed on all nodes that can run it.
func everywhere(j *api.Job) bool {
	parent := j.Periodic != nil || j.ParameterizedJob != nil
	return (j.Type == api.JobTypeSystem || j.Type == api.JobTypeSysbatch) && !j.Stop && !parent
}

// asks reports whether a system job asks for the volume; it has none per allocation.
func asks(j *api.Job, volume string) bool {
	return slices.ContainsFunc(j.TaskGroups, func(g *api.TaskGroup) bool {
		for _, r := range g.Volumes {
			if r != nil && r.Type == api.VolumeTypeCSI && r.Source == volume {
				return true
			}
		}
		return false
	})
}

// evaluate creates an evaluation of the job; one for each job and reason of an entry.
func evaluate(tx *state.Txn, j *api.Job, why, trigger string) {
	now := tx.Now().UnixNano()
	tx.PutEval(&api.Evaluation{
		ID:        fsm.DerivedID(why, strconv.FormatUint(tx.Index(), 10), j.Namespace, j.ID),
		Namespace: j.Namespace, JobID: j.ID, Priority: j.Priority, Type: j.Type, TriggeredBy: trigger,
		JobModifyIndex: j.JobModifyIndex, Status: api.EvalStatusPending, CreateTime: now, ModifyTime: now,
	})
}
