package devices

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/lazy"
	"github.com/open-nomad/open-nomad/plugins/device"
)

// Bounds of what a plugin may report.
const (
	groupsMax     = 64
	instancesMax  = 1024 // of all groups
	attributesMax = 128  // of a group
	textMax       = 1024
)

var (
	shortName     = lazy.Regexp(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)
	modelName     = lazy.Regexp(`^[a-zA-Z0-9][a-zA-Z0-9 ._:+()/-]{0,127}$`)
	deviceID      = lazy.Regexp(`^[a-zA-Z0-9][a-zA-Z0-9._:/@+=-]{0,127}$`)
	attributeName = lazy.Regexp(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$`)
	envName       = lazy.Regexp(`^[a-zA-Z_][a-zA-Z0-9_]{0,127}$`)
)

func invalid(format string, args ...any) error { return fault.New(fault.Invalid, format, args...) }

// plain reports whether a text may be shown: it is short, and has no control characters.
func plain(text string) bool {
	return len(text) <= textMax && utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// check refuses groups that a plugin must not report.
func check(groups []*api.NodeDeviceResource) error {
	if len(groups) > groupsMax {
		return invalid("%d groups of devices, at most %d are possible", len(groups), groupsMax)
	}
	names, ids := map[group]bool{}, map[string]bool{}
	for _, g := range groups {
		switch {
		case !shortName().MatchString(g.Vendor):
			return invalid("vendor %.80q: letters, digits, '.', '_' and '-' make one, at most 64", g.Vendor)
		case !shortName().MatchString(g.Type):
			return invalid("type %.80q: letters, digits, '.', '_' and '-' make one, at most 64", g.Type)
		case !modelName().MatchString(g.Name):
			return invalid("name %.80q: letters, digits, spaces and ._:+()/- make one, at most 128", g.Name)
		case names[nameOf(g)]:
			return invalid("group %s occurs twice", nameOf(g))
		case len(g.Attributes) > attributesMax:
			return invalid("group %s has %d attributes, at most %d are possible", nameOf(g), len(g.Attributes), attributesMax)
		case len(g.Instances) == 0:
			return invalid("group %s has no instances", nameOf(g))
		}
		names[nameOf(g)] = true
		for _, i := range g.Instances {
			switch {
			case !deviceID().MatchString(i.ID):
				return invalid("group %s has the id %.80q: letters, digits and ._:/@+=- make one, at most 128", nameOf(g), i.ID)
			case ids[i.ID]:
				return invalid("id %s occurs twice", i.ID)
			case !plain(i.HealthDescription) || i.Locality != nil && !plain(i.Locality.PciBusID):
				return invalid("device %s has a description or bus id that is too long, or has control characters", key{nameOf(g), i.ID})
			}
			if ids[i.ID] = true; len(ids) > instancesMax {
				return invalid("more than %d devices", instancesMax)
			}
		}
		for name, a := range g.Attributes {
			if !attributeName().MatchString(name) || !plain(a.Unit) || a.StringVal != nil && !plain(*a.StringVal) {
				return invalid("group %s has the attribute %.80q, which has no name, or a text that is too long or has control characters", nameOf(g), name)
			}
		}
	}
	return nil
}

func same(a, b []*api.NodeDeviceResource) bool { return reflect.DeepEqual(a, b) }

// Bounds of a reservation.
const (
	envsMax  = 128
	valueMax = 32 << 10
	pathsMax = 128
)

// checkReservation refuses what a plugin must not add to a task.
func checkReservation(r *device.Reservation) error {
	if len(r.Envs) > envsMax || len(r.Mounts) > pathsMax || len(r.Devices) > pathsMax {
		return invalid("%d variables, %d mounts and %d device nodes; at most %d of each are possible", len(r.Envs), len(r.Mounts), len(r.Devices), pathsMax)
	}
	for name, value := range r.Envs {
		if !envName().MatchString(name) || len(value) > valueMax || strings.ContainsRune(value, 0) {
			return invalid("variable %.80q has no valid name or value", name)
		}
	}
	for _, m := range r.Mounts {
		if err := checkPaths(m.Source, m.Destination); err != nil {
			return err
		}
		if _, err := os.Stat(m.Source); err != nil {
			return fault.New(fault.NotFound, "mount at %s: %w", m.Destination, err)
		}
	}
	for _, d := range r.Devices {
		if err := checkPaths(d.HostPath, d.TaskPath); err != nil {
			return err
		}
		if strings.Trim(d.Permissions, "rwm") != "" {
			return invalid("device node %s has the permissions %.20q: the letters r, w and m make them", d.HostPath, d.Permissions)
		}
		switch info, err := os.Stat(d.HostPath); {
		case err != nil:
			return fault.New(fault.NotFound, "device node: %w", err)
		case info.Mode()&os.ModeDevice == 0:
			return fault.New(fault.NotFound, "%s is no device node", d.HostPath)
		}
	}
	return nil
}

func checkPaths(host, task string) error {
	if !plain(host) || !plain(task) || !filepath.IsAbs(host) || !filepath.IsAbs(task) || filepath.Clean(task) == "/" {
		return invalid("host path %.80q at task path %.80q: both are absolute, and no task path is the root directory", host, task)
	}
	return nil
}
