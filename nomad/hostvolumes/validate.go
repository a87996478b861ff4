package hostvolumes

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/ids"
)

// Bounds of what is stored on servers and nodes.
const (
	// perNodeMax is how many dynamic host volumes a node has at most.
	perNodeMax      = 100
	parametersMax   = 4 << 10
	constraintsMax  = 64
	capabilitiesMax = 4
	pathMax         = 512
)

var (
	volumeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}(\[[0-9]{1,6}\])?$`)
	pluginName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	modes      = map[api.AccessMode]bool{
		api.AccessSingleNodeReader: true, api.AccessSingleNodeWriter: true, api.AccessSingleNodeSingle: true, api.AccessSingleNodeMulti: true,
	}
)

// check lists what is wrong with the definition of a volume.
func check(v *api.HostVolume) error {
	var errs []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(!volumeName.MatchString(v.Name), "name %.120q must be letters, digits, dots, dashes or underscores, at most 100, and may end in an index such as [0]", v.Name)
	wrong((v.PluginID != "" || !v.Registered) && !pluginName.MatchString(v.PluginID), "plugin_id %.80q must be the name of a plugin, such as mkdir", v.PluginID)
	wrong(v.RequestedCapacityMinBytes < 0 || v.RequestedCapacityMaxBytes < 0, "capacities must not be negative")
	wrong(v.RequestedCapacityMaxBytes > 0 && v.RequestedCapacityMinBytes > v.RequestedCapacityMaxBytes,
		"capacity_max (%d) must not be less than capacity_min (%d)", v.RequestedCapacityMaxBytes, v.RequestedCapacityMinBytes)
	wrong(len(v.RequestedCapabilities) == 0, "at least one capability block is needed")
	wrong(len(v.RequestedCapabilities) > capabilitiesMax, "at most %d capabilities are possible", capabilitiesMax)
	for i, c := range v.RequestedCapabilities {
		if c == nil {
			wrong(true, "capability %d is null", i+1)
			continue
		}
		wrong(!modes[c.AccessMode], "capability %d: access_mode %.60q is not one of single-node-reader-only, single-node-writer, single-node-single-writer, single-node-multi-writer", i+1, c.AccessMode)
		wrong(c.AttachmentMode != api.AttachmentFileSystem, "capability %d: attachment_mode %.60q: host volumes are of the mode file-system in this version", i+1, c.AttachmentMode)
	}
	wrong(len(v.Constraints) > constraintsMax, "at most %d constraints are possible", constraintsMax)
	for i, c := range v.Constraints {
		wrong(c == nil, "constraint %d is null", i+1)
		wrong(c != nil && (c.Operand == api.ConstraintDistinctHosts || c.Operand == api.ConstraintDistinctProperty), "constraint %d: %s is for jobs", i+1, operandOf(c))
		wrong(c != nil && len(c.LTarget)+len(c.RTarget)+len(c.Operand) > pathMax, "constraint %d is longer than %d bytes", i+1, pathMax)
	}
	size := 0
	for key, value := range v.Parameters {
		size += len(key) + len(value)
		wrong(strings.ContainsRune(key+value, 0), "parameter %.60q has a zero byte", key)
	}
	wrong(size > parametersMax, "parameters hold %d bytes, at most %d are possible", size, parametersMax)
	wrong(v.Registered && v.NodeID == "", "node_id is missing: name the node that has the directory")
	wrong(v.Registered && (!path.IsAbs(v.HostPath) || path.Clean(v.HostPath) != v.HostPath || v.HostPath == "/" || len(v.HostPath) > pathMax),
		"host_path %.120q must be the absolute path of a directory on the node", v.HostPath)
	errs = append(errs, ids.CheckText("host_path", v.HostPath))
	return fault.Wrap(fault.Invalid, errors.Join(errs...))
}

func operandOf(c *api.Constraint) string {
	if c == nil {
		return ""
	}
	return c.Operand
}
