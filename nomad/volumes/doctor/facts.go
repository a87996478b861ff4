package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Facts is what is known about one volume at one time.
type Facts struct {
	// Now is in Unix nanoseconds.
	Now    int64
	Volume *api.Volume
	// Plugin is nil when no node reports it and no job declares it.
	Plugin *api.Plugin
	// NeedsController is set when the volume cannot be attached, or its operation cannot end, without a controller.
	NeedsController bool
	// Held is why the volume waits since the restore of an older state; empty when it does not.
	Held string
	// SecretsMissing is set when the variable of SecretsFrom does not exist.
	SecretsMissing bool
	// Reachable counts the ready nodes with a healthy node plugin that the volume can be used on; Full counts those of
	// them that take no further volume of the plugin.
	Reachable, Full int
	Claims          []Claim
	Attachments     []Attachment
	StaleMounts     []StaleMount
	Snapshots       []*api.SnapshotUnderWay
	Waiting         []Waiting
}

// Claim is a claim with its allocation and node, which are nil when they do not exist.
type Claim struct {
	*api.VolumeClaim
	Alloc *api.Allocation
	Node  *api.Node
	// Waits describes what the claim waits for; Error is the part of it that failed, empty while nothing has.
	Waits, Error string
	// Remedy is the command that ends the claim; of a claim that waits it ends what it waits for.
	Remedy string
	// Holder is the claim that a waiting claim waits for; nil when there is none.
	Holder *api.VolumeClaim
}

// Attachment is an attachment, also one that was written off.
type Attachment struct {
	*api.VolumeAttachment
	Node *api.Node
	// Claims counts the claims on its node; Writers those of them that write.
	Claims, Writers int
	Remedy          string
}

// StaleMount is a mount that may be left on a node after its claim was released; Node is never nil.
type StaleMount struct {
	*api.StaleMount
	Node   *api.Node
	Remedy string
}

// Waiting is a group of a job that is not placed because of the volume.
type Waiting struct {
	JobID, Group, Reason string
	// Since is the creation of the blocked evaluation in Unix nanoseconds.
	Since int64
}

// away reports whether the node is lost or disconnected.
func away(n *api.Node) bool {
	return n == nil || n.Status == api.NodeStatusDown || n.Status == api.NodeStatusDisconnected
}

// nodeState is the node with its state, for texts.
func nodeState(n *api.Node, id string) string {
	if n == nil {
		return fmt.Sprintf("node %s, which does not exist any more,", id)
	}
	return fmt.Sprintf("node %s (%s, %s)", id, n.Name, n.Status)
}

// TaskState is the client status of an allocation with the states of its tasks; empty for nil.
func TaskState(a *api.Allocation) string {
	if a == nil {
		return ""
	}
	var tasks []string
	for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
		if s := a.TaskStates[name]; s != nil {
			tasks = append(tasks, name+" "+s.State)
		}
	}
	if len(tasks) == 0 {
		return a.ClientStatus
	}
	return a.ClientStatus + " (" + strings.Join(tasks, ", ") + ")"
}
