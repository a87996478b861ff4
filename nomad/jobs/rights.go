package jobs

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/access"
)

// permitted refuses a job whose volumes or plugins the token of the caller does not permit. What runs a job or more of it
// asks it: registering, planning, reverting, dispatching, forcing a launch and scaling up.
func permitted(ctx context.Context, j *api.Job) error {
	if j == nil || !access.Enabled(ctx) {
		return nil
	}
	rights := access.Of(ctx).Rights
	may := func(on api.RightOn, name string, any ...string) bool {
		return rights.Allows(api.Right{On: on, Any: any}, name)
	}
	for _, g := range j.TaskGroups {
		for _, v := range g.Volumes {
			ok := true
			switch {
			case v.Type == api.VolumeTypeCSI:
				ok = may(api.OnNamespace, j.Namespace, "csi-mount-volume") && may(api.OnPlugin, "", "read")
			case v.ReadOnly:
				ok = may(api.OnHostVolume, v.Source, "mount-readonly")
			default:
				ok = may(api.OnHostVolume, v.Source, "mount-readwrite")
			}
			if !ok {
				return access.ErrDenied
			}
		}
		for _, t := range g.Tasks {
			if t.CSIPluginConfig != nil && !may(api.OnNamespace, j.Namespace, "csi-register-plugin") {
				return access.ErrDenied
			}
		}
	}
	return nil
}

// either refuses callers without any of the capabilities in a namespace.
func either(ctx context.Context, namespace string, any ...string) error {
	if access.Of(ctx).Rights.Allows(api.Right{On: api.OnNamespace, Any: any}, namespace) {
		return nil
	}
	return access.ErrDenied
}
