package volumes

import (
	"errors"
	"path/filepath"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// place is a path as the host and as the plugin sees it.
type place = csiplugins.Place

// stagingAt is the one staging path of a volume on this node. The driver knows volumes by its own ids, so
// two registrations of one volume share it.
func stagingAt(base place, pluginID, externalID string) place {
	return base.Join(csiplugins.StagingDir, csiplugins.Hash(pluginID, externalID))
}

func targetAt(base place, namespace, volumeID, allocID, use string) place {
	return base.Join(csiplugins.TargetDir, targetName(namespace, volumeID, allocID, use))
}

// targetName names the target of one use. The name for the only use of a volume is the one that versions without uses
// gave it.
func targetName(namespace, volumeID, allocID, use string) string {
	if use == "" {
		return csiplugins.Hash(namespace, volumeID, allocID)
	}
	return csiplugins.Hash(namespace, volumeID, allocID, use)
}

// hasEnd reports whether a path ends in these two names.
func hasEnd(path, dir, name string) bool {
	return filepath.Base(path) == name && filepath.Base(filepath.Dir(path)) == dir
}

// removeLeaf removes a path that was mounted on: a file or an empty directory, never what has content.
func (s *Service) removeLeaf(path string) error {
	err := s.host.RemoveLeaf(path)
	if errors.Is(err, mounts.ErrMounted) {
		return fault.New(fault.Conflict, "%s is still mounted", path)
	}
	return err
}

func isTarget(path string) bool { return filepath.Base(filepath.Dir(path)) == csiplugins.TargetDir }

func isStaging(path string) bool { return filepath.Base(filepath.Dir(path)) == csiplugins.StagingDir }

// pluginAt returns the id of the plugin that a target or staging path belongs to.
func pluginAt(path string) string { return filepath.Base(filepath.Dir(filepath.Dir(path))) }

// below lists what is at our paths: mounts, and the device nodes that drivers make at targets instead.
func (s *Service) below() (mounts.List, error) {
	list, err := s.host.Below(s.root)
	if err != nil {
		return nil, err
	}
	nodes, err := s.host.Devices(s.root, csiplugins.TargetDir)
	for _, path := range nodes {
		list = append(list, &mounts.Entry{Root: path, Point: path}) // nothing that is mounted is without a device
	}
	return list, err
}

// isNode reports whether an entry of [Service.below] is a device node, and no mount.
func isNode(e *mounts.Entry) bool { return e.Dev == "" }

// currentPath refuses paths of records of this boot that are below another root, because the state directory was renamed:
// what is mounted for them are unrecorded mounts.
func currentPath(root, bootID string) func(boot string, at place) error {
	return func(boot string, at place) error {
		if boot == bootID && (isStaging(at.Host) || isTarget(at.Host)) && !within(at.Host, root) {
			return fault.New(fault.Conflict, "its path %s is outside of %s", at.Host, root)
		}
		return nil
	}
}
