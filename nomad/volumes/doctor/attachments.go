package doctor

import (
	"fmt"

	"github.com/open-nomad/open-nomad/api"
)

// attachments reports calls that fail and attachments that do not agree with the claims.
func attachments(f Facts) (all []*api.StorageFinding) {
	for _, a := range f.Attachments {
		found := a.judge(f)
		if found == nil {
			continue
		}
		found.NodeID, found.NextAt = a.NodeID, a.NextRetry
		if found.Since == 0 {
			found.Since = a.Since
		}
		all = append(all, found)
	}
	return all
}

// judge returns the finding of an attachment; nil when it is as it should be.
func (a Attachment) judge(f Facts) *api.StorageFinding {
	where := nodeState(a.Node, a.NodeID)
	failing := func(kind, what string) *api.StorageFinding {
		found := &api.StorageFinding{
			Kind: kind + "-pending", Severity: f.pending(a.Since), Text: what + " " + where, Next: "the call of the driver is repeated until it succeeds",
			Command: a.Remedy, Repair: api.RepairRetry,
		}
		if a.LastError != "" {
			found.Kind, found.Severity = kind+"-failing", api.SeverityError
			found.Text += fmt.Sprintf(" fails (%d tries): %s", a.Attempts, a.LastError)
		}
		return found
	}
	//exhaustive:enforce
	switch a.State {
	case api.AttachmentPublishing:
		if a.Refused != 0 {
			return &api.StorageFinding{
				Kind: "attach-refused", Severity: api.SeverityError, Text: "the driver refuses to attach the volume to " + where + ": " + a.LastError,
				Next: "the allocations that wait for it fail, and the attach is undone", Command: a.Remedy,
			}
		}
		return failing("attach", "the attach of the volume to")
	case api.AttachmentUnpublishing:
		return failing("detach", "the detach of the volume from")
	case api.AttachmentWrittenOff:
		found := failing("detach", "an operator released the volume by force; its detach from")
		found.Kind, found.Severity = "written-off", api.SeverityWarning
		return found
	case api.AttachmentPublished:
	}
	switch {
	case a.Claims == 0:
		return &api.StorageFinding{
			Kind: "attachment-without-claim", Severity: api.SeverityError, Text: "the volume is attached to " + where + " and no claim needs that",
			Next: "the next garbage collection detaches it", Command: a.Remedy, Repair: api.RepairReconcile,
		}
	case a.ReadOnly && a.Writers > 0:
		return &api.StorageFinding{
			Kind: "attached-read-only", Severity: api.SeverityError, Text: "the volume is attached read-only to " + where + ", and a claim on the node is for writing",
			Next: "writes fail until the volume is attached again", Command: a.Remedy,
		}
	}
	return nil
}

// staleMounts reports mounts that are left on nodes.
func staleMounts(f Facts) (all []*api.StorageFinding) {
	for _, m := range f.StaleMounts {
		user := "an allocation that you may not see"
		if m.AllocID != "" {
			user = "allocation " + m.AllocID
		}
		found := &api.StorageFinding{
			Kind: "stale-mount", Severity: api.SeverityWarning, Since: m.Since, AllocID: m.AllocID,
			NodeID: m.Node.ID, Text: "the volume may still be mounted on " + nodeState(m.Node, m.Node.ID) + " for " + user + ", whose claim was released",
			Next: "the volume can be used on this node when the node has unmounted it; it is free on all other nodes", Command: m.Remedy,
		}
		if m.LastError != "" {
			found.Text += "; the last unmount failed: " + m.LastError
		}
		all = append(all, found)
	}
	return all
}
