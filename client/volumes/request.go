package volumes

import (
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/client/volumes/journal"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// request is one use of a volume by an allocation.
type request struct {
	alloc *api.Allocation
	use   *api.VolumeUse
	// uses are all uses of the volume by the allocation, this one included.
	uses []*api.VolumeUse
	// wait reports why the volume is not mounted yet; nil reports nothing.
	wait *wait
}

func (q *request) volumeID() string { return q.use.VolumeID }

func (q *request) key() string {
	return journal.RowKey(q.alloc.ID, q.alloc.Namespace, q.use.VolumeID, q.use.Name)
}

// name is the volume as people know it, with the use where there are several.
func (q *request) name() string { return nameOf(q.use.VolumeID, q.use.Name) }

func nameOf(volumeID, use string) string {
	if use == "" {
		return volumeID
	}
	return volumeID + " (" + use + ")"
}

// requestsOf lists the uses of CSI volumes by the allocation's group, by volume and name.
func requestsOf(a *api.Allocation) []*request {
	uses := a.VolumeUses()
	var out []*request
	for _, u := range uses {
		q := &request{alloc: a, use: u}
		for _, o := range uses {
			if o.VolumeID == u.VolumeID {
				q.uses = append(q.uses, o)
			}
		}
		out = append(out, q)
	}
	return out
}

// serve notes the mount of a row under the names of all requests that it serves.
func (q *request) serve(r *journal.Row, out map[string]Mount) {
	for _, alias := range q.use.Aliases {
		readOnly := r.ReadOnly || q.alloc.Group().Volumes[alias].ReadOnly
		out[alias] = Mount{Source: r.Target.Host, Device: r.Device(), ReadOnly: readOnly, Owner: r.Owner}
	}
}

// staging returns the mode and options that the volume is staged with for a use with these: a mode that writes if any
// use writes, and the flags of single mounts that all uses by the allocation have in common. Each use is published
// with its own.
func (q *request) staging(mode api.AccessMode, own, volume *api.MountOptions) (api.AccessMode, *api.MountOptions, error) {
	common := own.PerMountFlags()
	fsType := ""
	if own != nil {
		fsType = own.FSType
	}
	for _, u := range q.uses {
		if u.Name == q.use.Name {
			continue
		}
		theirs := u.MountOptions.Over(volume)
		if !own.SameFileSystem(theirs) {
			return "", nil, fault.New(fault.Invalid,
				"requests %q and %q of the group need different file systems or options of one volume: only per-mount flags may differ",
				q.use.Aliases[0], u.Aliases[0])
		}
		if theirs != nil && fsType == "" {
			fsType = theirs.FSType
		}
		flags := theirs.PerMountFlags()
		common = slices.DeleteFunc(common, func(f string) bool { return !slices.Contains(flags, f) })
		if mode.ReadOnly() && u.AccessMode != "" && !u.AccessMode.ReadOnly() {
			mode = u.AccessMode
		}
	}
	if own == nil && fsType == "" {
		return mode, nil, nil
	}
	out := &api.MountOptions{FSType: fsType}
	perMount := own.PerMountFlags()
	if own != nil {
		out.MountFlags = slices.DeleteFunc(slices.Clone(own.MountFlags), func(f string) bool {
			return slices.Contains(perMount, f) && !slices.Contains(common, f)
		})
	}
	return mode, out, nil
}

// Mounting names the tasks of the allocation that mount the volume.
func Mounting(a *api.Allocation, volumeID string) []string {
	g := a.Group()
	if g == nil {
		return nil
	}
	var out []string
	for _, t := range g.Tasks {
		if slices.ContainsFunc(t.VolumeMounts, func(m *api.VolumeMount) bool {
			if strings.Contains(m.Volume, "${") {
				return true // only the task knows
			}
			r := g.Volumes[m.Volume]
			return r != nil && r.Type == api.VolumeTypeCSI && r.SourceFor(a.Name) == volumeID
		}) {
			out = append(out, t.Name)
		}
	}
	return out
}
