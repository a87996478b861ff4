package decide

import (
	"cmp"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Action is a step towards a mounted volume.
type Action string

const (
	// Mounted means that the volume is mounted as it is wanted: its record is changed to that.
	Mounted Action = "mounted"
	// Refuse ends the try. The class of the reason determines whether a later one may succeed: fault.Unavailable does.
	Refuse Action = "refuse"
	// Adopt writes the record of a mount of the use that has none.
	Adopt Action = "adopt"
	// Record writes the record of the use, before anything is mounted.
	Record Action = "record"
	// Claim asks the servers for the claim again.
	Claim Action = "claim"
	// Unpublish removes what is mounted at the target.
	Unpublish Action = "unpublish"
	// Unstage removes what an earlier use left at the staging path.
	Unstage Action = "unstage"
	// Stage calls NodeStage.
	Stage Action = "stage"
	// Publish calls NodePublish.
	Publish Action = "publish"
	// Restage unpublishes what the plugin has published in place of the volume. The next try stages again.
	Restage Action = "restage"
	// Restrict adds the mount flags that the plugin did not set.
	Restrict Action = "restrict"
)

// Rounds bounds the steps of one try. The longest path is Record, Unpublish, Unstage, Stage, Publish, Restrict, Mounted.
const Rounds = 10

// Step is what comes next, and why. The reason of Refuse is an error for users, that of other actions is for the log.
type Step struct {
	Action Action
	Reason error
}

// Wanted is one use of a volume by an allocation, as the servers have granted it.
type Wanted struct {
	// AllocID and Use identify the use, ExternalID and PluginID the volume.
	AllocID, Use, ExternalID, PluginID string
	AccessMode                         api.AccessMode
	AttachmentMode                     api.AttachmentMode
	Options                            *api.MountOptions
	// Lease is for how long the volume may be used without a heartbeat; 0 means indefinitely.
	Lease time.Duration
	// Stages is set when the plugin stages volumes.
	Stages bool
	// Staging is the staging path on the host.
	Staging string
}

// Seen is what the node has of the use and of its volume.
type Seen struct {
	// Before is the record of the use when the try began.
	Before Row
	// Found is a mount of the use without a record.
	Found Found
	// LeaseOver is set when the servers may have given the volume to another node.
	LeaseOver bool
	// Users are the other uses of the volume on this node.
	Users []User
	// Unrecorded is the reason why a mount without a record may use the volume; nil if none does.
	Unrecorded error
	// Hidden is set when this instance of the plugin cannot see the staging path.
	Hidden bool
	// Recorded, Staged and Published are set when this try has done that.
	Recorded, Staged, Published bool
	// Stale is set when the claim may have been given to others since it was granted.
	Stale   bool
	Staging Staging
	Target  Target
}

// Row is the record of a use from an earlier try.
type Row struct {
	// Leaving is set when the use ends, or when its record was removed.
	Leaving bool
	// Touched is set when the plugin may have mounted something for it since the host started, as volume ExternalID of
	// PluginID.
	Touched              bool
	ExternalID, PluginID string
}

// User is another use of the volume on this node.
type User struct {
	AllocID, Use, VolumeID string
	AccessMode             api.AccessMode
	AttachmentMode         api.AttachmentMode
	// Leaving is set when it is being unmounted.
	Leaving bool
	// Shows is set when its mount shows what the record of the staging has.
	Shows bool
}

// Health is what a mount responds.
type Health int

// States of a mount. Unknown means that it cannot be determined now.
const (
	Healthy Health = iota
	Failed
	Unknown
)

// Found is a mount, or a device node, at a target of the use that no record explains; Path is empty if there is none.
type Found struct {
	Path, PluginID string
	Health         Health
	Why            string
}

// Staging is what is recorded of, and mounted at, the staging path.
type Staging struct {
	// Recorded is set when there is a record of a staging of the volume, Here when it is of this path and of this start of
	// the host, Done when the plugin has confirmed it.
	Recorded, Here, Done bool
	// AllocID is the use that it was made for, AccessMode and Options how.
	AllocID    string
	AccessMode api.AccessMode
	Options    *api.MountOptions
	// HadMount is set when the record has a mount: some plugins mount nothing at the staging path.
	HadMount bool
	// On describes what is mounted at the path; empty means nothing. Same is set when the record has the same.
	On     string
	Same   bool
	Health Health
	Why    string
}

// Target is what is at the target path.
type Target struct {
	// Mounted is set when something is mounted there, Ours when an earlier try for the use mounted it and it has not failed.
	Mounted, Ours bool
	Why           string
	// The others are observed after NodePublish. Missing is set when a volume is not there, with the reason in Why;
	// StagingDir when the plugin has published the directory of the staging path; Flags are those that are missing.
	Missing, StagingDir bool
	Flags               string
}

// row is a row of a table: the action and its reason, if it applies.
type row struct {
	action  Action
	applies func(w *Wanted, s *Seen) bool
	reason  func(w *Wanted, s *Seen) error
}

// Mount returns the next step towards a mount.
func Mount(w Wanted, s Seen) Step {
	for _, r := range mounting {
		if r.applies(&w, &s) {
			step := Step{Action: r.action}
			if r.reason != nil {
				step.Reason = r.reason(&w, &s)
			}
			return step
		}
	}
	return Step{Action: Mounted}
}

// mounting is the way to a mount. Rows before Record look at the use, those after it at the paths.
var mounting = []row{
	{Refuse, func(_ *Wanted, s *Seen) bool { return s.Before.Leaving }, because(fault.Conflict, "it is being unmounted for allocation %s",
		func(w *Wanted, _ *Seen) []any { return []any{w.AllocID} })},
	{Refuse, otherVolume, because(fault.Conflict,
		"it may be mounted as %q of plugin %s and is now %q of plugin %s: it can be mounted after allocation %s has released it",
		func(w *Wanted, s *Seen) []any {
			return []any{s.Before.ExternalID, s.Before.PluginID, w.ExternalID, w.PluginID, w.AllocID}
		})},

	{
		Refuse, func(w *Wanted, s *Seen) bool { return found(s) && s.Found.PluginID != w.PluginID },
		because(fault.Unavailable, "plugin %q has it mounted at %s without a record: unmount it there",
			func(_ *Wanted, s *Seen) []any { return []any{s.Found.PluginID, s.Found.Path} }),
	},
	{
		Refuse, func(_ *Wanted, s *Seen) bool { return found(s) && s.Found.Health == Unknown },
		because(fault.Unavailable, "the mount at %s has no record and does not respond: %s",
			func(_ *Wanted, s *Seen) []any { return []any{s.Found.Path, s.Found.Why} }),
	},
	{Adopt, func(_ *Wanted, s *Seen) bool { return found(s) && s.Found.Health == Healthy }, nil},

	{
		Refuse, func(_ *Wanted, s *Seen) bool { return !s.Recorded && s.LeaseOver },
		because(fault.Unavailable, "its lease of %s has expired: no server responds to this node",
			func(w *Wanted, _ *Seen) []any { return []any{w.Lease} }),
	},
	{Refuse, func(w *Wanted, s *Seen) bool { return !s.Recorded && excluded(w, s) != nil }, excluded},
	{Refuse, func(w *Wanted, s *Seen) bool { return !s.Recorded && w.AccessMode.SingleUser() && s.Unrecorded != nil }, unrecorded},
	{
		Refuse, func(w *Wanted, s *Seen) bool { return !s.Recorded && w.Stages && s.Hidden },
		because(fault.Unavailable, "it is staged at %s, which this instance of plugin %s cannot see; it can be staged again after its users have ended",
			func(w *Wanted, _ *Seen) []any { return []any{w.Staging, w.PluginID} }),
	},
	{Record, func(_ *Wanted, s *Seen) bool { return !s.Recorded }, nil},
	{Claim, func(_ *Wanted, s *Seen) bool { return !s.Published && s.Stale }, nil},

	{
		Refuse, func(w *Wanted, s *Seen) bool { return staging(w, s) && covered(s) != "" },
		because(fault.Unavailable, "stage: %s is mounted over the volume at %s, which allocation %s uses: unmount it",
			func(w *Wanted, s *Seen) []any { return []any{s.Staging.On, w.Staging, covered(s)} }),
	},
	{Refuse, func(w *Wanted, s *Seen) bool { return staging(w, s) && len(s.Users) > 0 && mismatch(w, s) != nil }, mismatch},
	{
		Refuse, func(w *Wanted, s *Seen) bool { return staging(w, s) && kept(w, s) && s.Staging.Health == Unknown },
		because(fault.Unavailable, "stage: the state of the mount at %s is unknown: %s",
			func(w *Wanted, s *Seen) []any { return []any{w.Staging, s.Staging.Why} }),
	},
	{Refuse, func(w *Wanted, s *Seen) bool {
		return staging(w, s) && left(w, s) && s.Staging.On != "" && s.Unrecorded != nil
	}, unrecorded},
	{
		Unpublish, func(w *Wanted, s *Seen) bool { return staging(w, s) && left(w, s) && s.Target.Mounted },
		because(fault.Unavailable, "nothing is unstaged below a mount", nil),
	},
	{
		Unstage, func(w *Wanted, s *Seen) bool { return staging(w, s) && left(w, s) },
		because(fault.Unavailable, "an earlier use has left it", nil),
	},
	{Stage, func(w *Wanted, s *Seen) bool { return staging(w, s) && !(kept(w, s) && s.Staging.Health == Healthy) }, nil},

	{
		Unpublish, func(_ *Wanted, s *Seen) bool { return !s.Published && s.Target.Mounted && !s.Target.Ours },
		because(fault.Unavailable, "%s", func(_ *Wanted, s *Seen) []any { return []any{cmp.Or(s.Target.Why, "it is not in the journal")} }),
	},
	{Publish, func(_ *Wanted, s *Seen) bool { return !s.Published }, nil},
	{
		Refuse, func(_ *Wanted, s *Seen) bool { return s.Target.Missing },
		because(fault.Unavailable, "%s", func(_ *Wanted, s *Seen) []any { return []any{s.Target.Why} }),
	},
	{
		Restage, func(_ *Wanted, s *Seen) bool { return s.Target.StagingDir },
		because(fault.Unavailable, "the plugin published the directory %s and not the volume, which is not mounted there although the plugin staged it",
			func(w *Wanted, _ *Seen) []any { return []any{w.Staging} }),
	},
	{Restrict, func(_ *Wanted, s *Seen) bool { return s.Target.Flags != "" }, nil},
}

// because returns the reason of a row; nil values mean that the text has none.
func because(class fault.Class, text string, values func(*Wanted, *Seen) []any) func(*Wanted, *Seen) error {
	return func(w *Wanted, s *Seen) error {
		if values == nil {
			return fault.New(class, "%s", text)
		}
		return fault.New(class, text, values(w, s)...)
	}
}
