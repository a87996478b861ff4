package plugin

import (
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

func showCapabilities(s *session.Session, title string, has []string) {
	if len(has) > 0 {
		s.Titled(title, view.Indent(strings.Join(has, "\n"), 2)+"\n")
	}
}

// of lists the names of what any healthy instance can do.
func of(can map[string]bool) []string {
	maps.DeleteFunc(can, func(_ string, v bool) bool { return !v })
	return slices.Sorted(maps.Keys(can))
}

func controllerCapabilities(instances map[string]*api.CSIInfo) []string {
	can := map[string]bool{}
	for _, i := range instances {
		c := i.ControllerInfo
		if c == nil || !i.Healthy {
			continue
		}
		for name, has := range map[string]bool{
			"CREATE_DELETE_VOLUME":         c.SupportsCreateDelete,
			"CONTROLLER_ATTACH_DETACH":     c.SupportsAttachDetach,
			"LIST_VOLUMES":                 c.SupportsListVolumes,
			"GET_CAPACITY":                 c.SupportsGetCapacity,
			"CREATE_DELETE_SNAPSHOT":       c.SupportsCreateDeleteSnapshot,
			"LIST_SNAPSHOTS":               c.SupportsListSnapshots,
			"CLONE_VOLUME":                 c.SupportsClone,
			"ATTACH_READONLY":              c.SupportsReadOnlyAttach,
			"EXPAND_VOLUME":                c.SupportsExpand,
			"LIST_VOLUMES_PUBLISHED_NODES": c.SupportsListVolumesAttachedNodes,
			"VOLUME_CONDITION":             c.SupportsCondition,
			"GET_VOLUME":                   c.SupportsGet,
		} {
			can[name] = can[name] || has
		}
	}
	return of(can)
}

func nodeCapabilities(instances map[string]*api.CSIInfo) []string {
	can := map[string]bool{}
	for _, i := range instances {
		n := i.NodeInfo
		if n == nil || !i.Healthy {
			continue
		}
		for name, has := range map[string]bool{
			"VOLUME_ACCESSIBILITY_CONSTRAINTS": i.RequiresTopologies,
			"STAGE_UNSTAGE_VOLUME":             n.RequiresNodeStageVolume,
			"GET_VOLUME_STATS":                 n.SupportsStats,
			"EXPAND_VOLUME":                    n.SupportsExpand,
			"VOLUME_CONDITION":                 n.SupportsCondition,
		} {
			can[name] = can[name] || has
		}
	}
	return of(can)
}
