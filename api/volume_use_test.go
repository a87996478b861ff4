package api

import (
	"testing"
)

func names(uses []*VolumeUse) string {
	out := ""
	for _, u := range uses {
		out += u.VolumeID + "/" + u.Name + " "
		for _, a := range u.Aliases {
			out += a + " "
		}
		if u.ReadOnly {
			out += "ro "
		}
	}
	return out
}

func TestVolumeUses(t *testing.T) {
	req := func(source, mode string, readOnly bool, flags ...string) *VolumeRequest {
		r := &VolumeRequest{Type: VolumeTypeCSI, Source: source, AccessMode: mode, ReadOnly: readOnly}
		if len(flags) > 0 {
			r.MountOptions = &MountOptions{MountFlags: flags}
		}
		return r
	}
	multi, single := string(AccessMultiNodeMultiWriter), string(AccessSingleNodeWriter)
	for _, c := range []struct {
		what     string
		requests map[string]*VolumeRequest
		want     string
	}{
		{"none", nil, ""},
		{"one", map[string]*VolumeRequest{"a": req("v", multi, false)}, "v/ a "},
		{"the same twice", map[string]*VolumeRequest{"b": req("v", multi, false, "x", "y"), "a": req("v", multi, false, "y", "x")}, "v/ a b "},
		{"other options", map[string]*VolumeRequest{"b": req("v", multi, false, "nodev"), "a": req("v", multi, false, "noexec")}, "v/a a v/b b "},
		{"reading and writing", map[string]*VolumeRequest{"b": req("v", multi, false), "a": req("v", multi, true)}, "v/a a ro v/b b "},
		{"reading and writing by a single user", map[string]*VolumeRequest{"b": req("v", single, false), "a": req("v", single, true)}, "v/ a b "},
		{"two volumes", map[string]*VolumeRequest{"b": req("v", multi, false), "a": req("w", multi, true)}, "v/ b w/ a ro "},
	} {
		if got := names(VolumeUses(c.requests, "job.group[0]")); got != c.want {
			t.Errorf("%s: uses are %q, not %q", c.what, got, c.want)
		}
	}
}

func TestMountOptionsShareAFileSystem(t *testing.T) {
	o := func(fs string, flags ...string) *MountOptions {
		return &MountOptions{FSType: fs, MountFlags: flags}
	}
	for _, c := range []struct {
		a, b *MountOptions
		want bool
	}{
		{nil, nil, true},
		{nil, o("", "noexec"), true},
		{o("ext4", "ro", "data=journal"), o("", "data=journal"), true},
		{o("ext4"), o("xfs"), false},
		{o("", "vers=4"), nil, false},
	} {
		if c.a.SameFileSystem(c.b) != c.want || c.b.SameFileSystem(c.a) != c.want {
			t.Errorf("%+v and %+v share a file system: not %v", c.a, c.b, c.want)
		}
	}
	if o("", "b", "a", "a").Equal(o("", "a", "b")) != true || o("", "a").Equal(nil) {
		t.Error("order and repetition of flags matter, or flags do not")
	}
}
