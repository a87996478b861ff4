package doctor

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/commandtext"
)

// claims reports each claim: who has the volume, and what a claim waits for.
func claims(f Facts) (all []*api.StorageFinding) {
	for _, c := range f.Claims {
		found := c.judge(f)
		found.AllocID, found.JobID, found.NodeID, found.TaskState = c.AllocID, c.JobID, c.NodeID, TaskState(c.Alloc)
		if found.Since == 0 {
			found.Since = c.Since
		}
		all = append(all, found)
	}
	return all
}

// judge returns the one finding of a claim.
func (c Claim) judge(f Facts) *api.StorageFinding {
	who := fmt.Sprintf("allocation %s of job %q on %s", c.AllocID, c.JobID, nodeState(c.Node, c.NodeID))
	if c.forgotten() {
		return &api.StorageFinding{
			Kind: "claim-forgotten", Severity: api.SeverityError, Text: fmt.Sprintf("%s has ended and its claim is still %s", who, c.State),
			Next: "the next garbage collection releases the claim", Command: commandtext.RepairVolume(f.Volume.Namespace, f.Volume.ID), Repair: api.RepairReconcile,
		}
	}
	//exhaustive:enforce
	switch c.State {
	case api.ClaimWaiting:
		return c.waits(who)
	case api.ClaimTaken:
		return c.taken(f, who)
	case api.ClaimReady:
		return c.ready(who)
	case api.ClaimReleasing:
		return c.releasing(f, who)
	case api.ClaimUnmounted:
	}
	return &api.StorageFinding{
		Kind: "claim-unmounted", Severity: f.pending(c.Since), Text: who + " has unmounted the volume", Next: cmp.Or(c.Waits, "the claim ends when the volume is detached"),
		Command: c.Remedy,
	}
}

// forgotten reports whether a claim that is in use outlived its allocation.
func (c Claim) forgotten() bool {
	inUse := c.State == api.ClaimWaiting || c.State == api.ClaimTaken || c.State == api.ClaimReady
	return inUse && (c.Alloc == nil || c.Alloc.Terminal())
}

func (c Claim) waits(who string) *api.StorageFinding {
	found := &api.StorageFinding{Kind: "claim-waits", Severity: api.SeverityError, Text: who + " waits for the volume", Next: c.Waits, NextAt: c.NextRetry, Command: c.Remedy}
	if h := c.Holder; h != nil {
		found.Text += fmt.Sprintf(", which allocation %s of job %q on node %s holds (%s)", h.AllocID, h.JobID, h.NodeID, h.State)
		found.NextAt = cmp.Or(h.NextRetry, found.NextAt)
	}
	return found
}

func (c Claim) taken(f Facts, who string) *api.StorageFinding {
	found := &api.StorageFinding{
		Kind: "claim-waits", Severity: f.pending(c.Since), Text: who + " has claimed the volume and it is not attached yet", Next: c.Waits,
		NextAt: c.NextRetry, Repair: api.RepairRetry,
	}
	if c.Error != "" {
		found.Severity = api.SeverityError
	}
	return found
}

// ready reports the use of the volume.
func (c Claim) ready(who string) *api.StorageFinding {
	switch {
	case away(c.Node):
		return &api.StorageFinding{
			Kind: "node-lost", Severity: api.SeverityError, Text: who + " holds the volume, and the node does not send heartbeats", Next: c.Waits, NextAt: c.NextRetry, Command: c.Remedy,
		}
	case c.LastError != "":
		return &api.StorageFinding{
			Kind: "mount-failing", Severity: api.SeverityError, Text: who + " cannot mount the volume: " + c.LastError, Next: "the node repeats the mount", NextAt: c.NextRetry,
			Command: commandtext.AllocStatus(c.Namespace, c.AllocID),
		}
	}
	use := "reads"
	if c.Mode == api.ClaimWrite {
		use = "reads and writes"
	}
	return &api.StorageFinding{Kind: "in-use", Severity: api.SeverityInfo, Text: fmt.Sprintf("%s %s the volume (%s)", who, use, c.AccessMode), Next: "the volume is free when the allocation stops"}
}

func (c Claim) releasing(f Facts, who string) *api.StorageFinding {
	switch {
	case away(c.Node):
		return &api.StorageFinding{
			Kind: "node-lost", Severity: api.SeverityError, Text: who + " holds the volume, and the node does not send heartbeats", Next: cmp.Or(c.LastError, c.Waits), NextAt: c.NextRetry, Command: c.Remedy,
		}
	case c.Alloc != nil && !c.Alloc.ClientTerminal():
		return &api.StorageFinding{
			Kind: "stopping", Severity: f.pending(c.Since), Text: who + " is being stopped", Next: "the node unmounts the volume when the tasks have ended", Command: c.Remedy,
		}
	}
	found := &api.StorageFinding{
		Kind: "unmount-pending", Severity: f.pending(c.Since), Text: who + " has ended, and the node has not unmounted the volume yet",
		Next: "the node and the leader repeat the unmount", NextAt: c.NextRetry, Command: c.Remedy, Repair: api.RepairUnmount,
	}
	if c.LastError != "" {
		found.Kind, found.Severity, found.Text = "unmount-failing", api.SeverityError, who+" has ended, and the node cannot unmount the volume: "+c.LastError
	}
	return found
}

// Task events about mounts.
const (
	mountUnhealthy = "Volume Unhealthy"
	mountHealthy   = "Volume Healthy"
)

// mounts reports mounts that do not respond, by the last task event about each.
func mounts(f Facts) (all []*api.StorageFinding) {
	for _, c := range f.Claims {
		if c.State != api.ClaimReady || c.Alloc == nil || c.Alloc.Terminal() {
			continue
		}
		if e := lastMountEvent(c.Alloc, c.VolumeID); e != nil && e.Type == mountUnhealthy {
			all = append(all, &api.StorageFinding{
				Kind: "mount-unhealthy", Severity: api.SeverityError, Since: e.Time, AllocID: c.AllocID, JobID: c.JobID, NodeID: c.NodeID, TaskState: TaskState(c.Alloc),
				Text: fmt.Sprintf("allocation %s on %s: %s", c.AllocID, nodeState(c.Node, c.NodeID), eventText(e)),
				Next: "the node probes the mount again and follows on_mount_dead of the volume", Command: commandtext.RestartAlloc(c.Namespace, c.AllocID),
			})
		}
	}
	return all
}

func lastMountEvent(a *api.Allocation, volume string) (last *api.TaskEvent) {
	for _, s := range a.TaskStates {
		if s == nil {
			continue
		}
		for _, e := range s.Events {
			about := e != nil && (e.Type == mountUnhealthy || e.Type == mountHealthy) && strings.Contains(eventText(e), "the mount of volume "+volume+" at ")
			if about && (last == nil || e.Time > last.Time) {
				last = e
			}
		}
	}
	return last
}

func eventText(e *api.TaskEvent) string { return cmp.Or(e.DisplayMessage, e.Message) }
