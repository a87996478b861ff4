package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// otherVolume reports whether an earlier try may have mounted another volume for the use: the id may have been given to
// another volume since.
func otherVolume(w *Wanted, s *Seen) bool {
	return s.Before.Touched && (s.Before.ExternalID != w.ExternalID || s.Before.PluginID != w.PluginID)
}

// found reports whether a mount without a record matters: an earlier try whose plugin was called has its record.
func found(s *Seen) bool { return !s.Recorded && !s.Before.Touched && s.Found.Path != "" }

// excluded enforces the access modes even where drivers do not, and where a claim was released while this node was away:
// the mounts of its allocation must be removed before another allocation gets the volume here.
func excluded(w *Wanted, s *Seen) error {
	for _, o := range s.Users {
		switch {
		case (w.AccessMode.SingleUser() || o.AccessMode.SingleUser()) && o.AllocID == w.AllocID:
			return fault.New(fault.Conflict, "the group also uses it as %q, and access mode %s allows one use", cmp.Or(o.Use, o.VolumeID), w.AccessMode)
		case w.AccessMode.SingleUser() || o.AccessMode.SingleUser():
			return fault.New(fault.Unavailable, "allocation %s uses it, and access mode %s allows one user", o.AllocID, cmp.Or(w.AccessMode, o.AccessMode))
		case o.AttachmentMode != w.AttachmentMode && o.Leaving:
			return fault.New(fault.Unavailable, "allocation %s uses it as a %s on this node", o.AllocID, o.AttachmentMode)
		case o.AttachmentMode != w.AttachmentMode:
			return fault.New(fault.Conflict, "allocation %s uses it as a %s on this node", o.AllocID, o.AttachmentMode)
		}
	}
	return nil
}

// unrecorded is the reason for waiting for a mount without a record.
func unrecorded(_ *Wanted, s *Seen) error { return s.Unrecorded }

// staging reports whether the volume must be staged, or the staging checked, before it is published.
func staging(w *Wanted, s *Seen) bool { return w.Stages && !s.Staged && !s.Published }

// covered returns a user whose mount shows the recorded staging while something else is mounted over its path: that would
// be published in place of the volume.
func covered(s *Seen) string {
	st := &s.Staging
	if !st.Here || !st.Done || st.On == "" || st.Same {
		return ""
	}
	i := slices.IndexFunc(s.Users, func(o User) bool { return o.Shows })
	if i < 0 {
		return ""
	}
	return s.Users[i].AllocID
}

// kept reports whether the staging is there as its record has it, and fits.
func kept(w *Wanted, s *Seen) bool {
	return s.Staging.Here && s.Staging.Done && s.Staging.Same && mismatch(w, s) == nil
}

// left reports whether something must be unstaged first. The driver still treats as staged what another process has
// unmounted. A staging that another use may have stays.
func left(w *Wanted, s *Seen) bool {
	st := &s.Staging
	switch {
	case len(s.Users) > 0 || kept(w, s) && st.Health == Healthy:
		return false
	case mismatch(w, s) != nil, taken(st):
		return true
	default:
		return st.On != "" && (!st.Recorded || st.Done)
	}
}

// taken reports whether another process has unmounted the staging.
func taken(st *Staging) bool { return st.On == "" && st.Here && st.Done && st.HadMount }

// mismatch returns why the use cannot share the staging that is there, or may be; nil when it can. Users may differ in the
// flags of single mounts as long as the staging has none that they do not want.
func mismatch(w *Wanted, s *Seen) error {
	st := &s.Staging
	if !st.Here || st.Done && !st.Same {
		return nil
	}
	class, err := differs(w, s)
	if err == nil {
		return nil
	}
	// A staging that is not confirmed, or whose users all leave, is made again when they have left.
	if !st.Done || !slices.ContainsFunc(s.Users, func(o User) bool { return !o.Leaving }) {
		class = fault.Unavailable
	}
	return fault.Wrap(class, fmt.Errorf("stage: %w", err))
}

// differs returns the first difference between what is wanted and what is staged.
func differs(w *Wanted, s *Seen) (fault.Class, error) {
	st := &s.Staging
	who := st.AllocID
	if len(s.Users) > 0 && !slices.ContainsFunc(s.Users, func(o User) bool { return o.AllocID == who }) {
		who = s.Users[0].AllocID
	}
	if !st.Options.SameFileSystem(w.Options) {
		return fault.Conflict, fmt.Errorf("allocation %s uses it on this node with %s, and this one needs %s: they cannot share it",
			who, optionsText(st.Options), optionsText(w.Options))
	}
	wanted := w.Options.PerMountFlags()
	for _, f := range st.Options.PerMountFlags() {
		if !slices.Contains(wanted, f) {
			return fault.Conflict, fmt.Errorf("allocation %s uses it on this node with the mount flag %s, which this one does not have: they cannot share it", who, f)
		}
	}
	if st.AccessMode.ReadOnly() && !w.AccessMode.ReadOnly() {
		return fault.Unavailable, fmt.Errorf("allocation %s uses it on this node in mode %s, which allows no writer", who, st.AccessMode)
	}
	return fault.Unavailable, nil
}

func optionsText(o *api.MountOptions) string {
	if o == nil || o.FSType == "" && len(o.MountFlags) == 0 {
		return "no mount options"
	}
	out := "fs_type " + o.FSType
	if o.FSType == "" {
		out = "the default fs_type"
	}
	if len(o.MountFlags) > 0 {
		out += fmt.Sprintf(" and %d mount flags (%s)", len(o.MountFlags), strings.Join(o.PerMountFlags(), ","))
	}
	return out
}
