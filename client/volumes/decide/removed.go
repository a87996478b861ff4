package decide

// Removal is what follows from a plugin's reply to NodeUnpublish or NodeUnstage.
type Removal string

const (
	// Removed means that the plugin, or the end of the mount, has settled it.
	Removed Removal = "removed"
	// Abandoned means that nothing is mounted, and that the plugin may keep something besides mounts indefinitely.
	Abandoned Removal = "abandoned"
	// Again repeats the call later.
	Again Removal = "again"
	// Unmount lets the node unmount in the plugin's stead.
	Unmount Removal = "unmount"
)

// Reply is what is known after the call.
type Reply struct {
	// There is set when something is at the path still.
	There bool
	// Succeeded is set when the plugin has reported success, Absent when it does not know the volume, Answered when none of
	// its work is under way: it has replied, whatever.
	Succeeded, Absent, Answered bool
	// Own is set when the node may unmount by itself, because the plugin failed for long or an operator asked for it.
	Own bool
	// Unseen is set when no mount was there before the call and the plugin may hold a session without one: the mount table
	// does not show that.
	Unseen bool
	// Once is set when an absent mount is not enough yet: a driver also has devices and sessions to close.
	Once bool
}

// Removed returns what follows from the reply.
func (r Reply) Removed() Removal {
	switch {
	case !r.There && r.Succeeded:
		return Removed
	case !r.There && (r.Own || r.Answered && !r.Unseen && (!r.Once || r.Absent)):
		if r.Unseen {
			return Abandoned
		}
		return Removed
	case r.There && r.Own:
		return Unmount
	default:
		return Again
	}
}
