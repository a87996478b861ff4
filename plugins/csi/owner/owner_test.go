package owner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
	"github.com/open-nomad/open-nomad/plugins/csi/owner"
)

// tree makes a volume with files, a link that leads out, and returns it with what the link names.
func tree(t *testing.T) (root, outside string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("giving files away needs root")
	}
	root, outside = t.TempDir(), filepath.Join(t.TempDir(), "outside")
	for _, err := range []error{
		os.MkdirAll(root+"/a/b", 0o755), os.WriteFile(root+"/a/b/f", nil, 0o600), os.WriteFile(outside, nil, 0o600),
		os.Symlink(outside, root+"/a/link"), os.Symlink("/", root+"/slash"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return root, outside
}

func has(t *testing.T, path string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d:%d %04o", st.Uid, st.Gid, st.Mode&0o7777)
}

func expect(t *testing.T, path, want string) {
	t.Helper()
	if got := has(t, path); !strings.HasPrefix(got, want) {
		t.Errorf("%s is %s, not %s", path, got, want)
	}
}

func apply(t *testing.T, root string, o api.VolumeOwner, keepGroup bool) {
	t.Helper()
	if err := owner.Apply(t.Context(), root, &o, keepGroup, nil); err != nil {
		t.Fatal(err)
	}
}

func TestTreeIsGivenAwayWithoutFollowingLinks(t *testing.T) {
	root, outside := tree(t)
	apply(t, root, api.VolumeOwner{UID: 1001, GID: 1002, Mode: "2750"}, false)
	expect(t, root, "1001:1002 2750")
	for _, p := range []string{"/a", "/a/b", "/a/b/f", "/a/link", "/slash"} {
		expect(t, root+p, "1001:1002")
	}
	expect(t, root+"/a/b/f", "1001:1002 0600")
	expect(t, outside, "0:0")
	expect(t, "/", "0:0")
}

func TestPoliciesDecideAboutFilesBelow(t *testing.T) {
	for policy, want := range map[string]string{api.OwnerRootMismatch: "0:0", api.OwnerAlways: "7:8"} {
		root, _ := tree(t)
		if err := os.Chown(root, 7, 8); err != nil {
			t.Fatal(err)
		}
		apply(t, root, api.VolumeOwner{UID: 7, GID: 8, Mode: "0711", Policy: policy}, false)
		expect(t, root, "7:8 0711")
		expect(t, root+"/a/b/f", want)
	}
	root, _ := tree(t)
	before := has(t, root)
	apply(t, root, api.VolumeOwner{UID: 7, GID: 8, Mode: "0711", Policy: api.OwnerNever}, false)
	expect(t, root, before)
	expect(t, root+"/a", "0:0")
}

func TestGroupOfTheDriverIsKept(t *testing.T) {
	root, _ := tree(t)
	apply(t, root, api.VolumeOwner{UID: 7, GID: 8}, true)
	expect(t, root, "7:0")
	expect(t, root+"/a/b/f", "7:0")
}

func TestOtherFileSystemsInsideAreLeftAlone(t *testing.T) {
	root, _ := tree(t)
	other := t.TempDir()
	if err := mounts.Bind(other, root+"/a/b", mounts.Flags{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mounts.Unmount(root + "/a/b") })
	apply(t, root, api.VolumeOwner{UID: 7, GID: 8}, false)
	expect(t, root+"/a", "7:8")
	expect(t, other, "0:0")
	if err := owner.MakeDir(t.Context(), root, "a/b/c", nil, true); !errors.Is(err, fault.Invalid) {
		t.Errorf("a directory on another mount: %v", err)
	}
}

func TestAnEndedContextLeavesTheRootForTheNextTry(t *testing.T) {
	root, _ := tree(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := owner.Apply(ctx, root, &api.VolumeOwner{UID: 7, GID: 8}, false, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("error is %v", err)
	}
	apply(t, root, api.VolumeOwner{UID: 7, GID: 8}, false)
	expect(t, root+"/a/b/f", "7:8")
}

func TestReadOnlyFileSystemNamesTheRemedy(t *testing.T) {
	root, _ := tree(t)
	at := t.TempDir()
	if err := mounts.Bind(root, at, mounts.Flags{ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mounts.Unmount(at) })
	err := owner.Apply(t.Context(), at, &api.VolumeOwner{UID: 7, GID: 8}, false, nil)
	if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), `policy = "never"`) {
		t.Errorf("error is %v", err)
	}
}

func TestMissingDirectoriesAreMadeForTheOwner(t *testing.T) {
	root, _ := tree(t)
	o := &api.VolumeOwner{UID: 7, GID: 8, Mode: "0750"}
	for range 2 {
		if err := owner.MakeDir(t.Context(), root, "a/new/deep", o, true); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, root+"/a/new", "7:8 0750")
	expect(t, root+"/a/new/deep", "7:8 0750")
	expect(t, root+"/a", "0:0 0755")
	if err := owner.MakeDir(t.Context(), root, "plain", nil, true); err != nil {
		t.Fatal(err)
	}
	expect(t, root+"/plain", "0:0 0755")
}

func TestSubPathsThatLeaveTheVolumeAreRefused(t *testing.T) {
	root, outside := tree(t)
	if err := os.Symlink(filepath.Dir(outside), root+"/a/out"); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"", ".", "/", "/etc", "..", "a/../../x", "a/..", "a/link", "a/out/made", "slash/tmp", "a/b/f", "x\x00y"} {
		if err := owner.MakeDir(t.Context(), root, sub, nil, true); !errors.Is(err, fault.Invalid) {
			t.Errorf("sub path %q: %v", sub, err)
		}
	}
	if _, err := os.Lstat(filepath.Dir(outside) + "/made"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory was made outside: %v", err)
	}
	if err := owner.MakeDir(t.Context(), root, "absent", nil, false); !errors.Is(err, fault.NotFound) {
		t.Errorf("missing and not to be made: %v", err)
	}
}
