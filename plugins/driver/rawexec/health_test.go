package rawexec_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
)

func firstFingerprint(t *testing.T, d *rawexec.Driver) driver.Fingerprint {
	t.Helper()
	ch, err := d.Fingerprint(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	return <-ch
}

func TestUnhealthyWhereProgramsCannotRun(t *testing.T) {
	if f := firstFingerprint(t, newDriver(t, t.TempDir())); f.Health != driver.Healthy {
		t.Fatalf("before: %+v", f)
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOEXEC, ""); err != nil {
		t.Skip("no mounts here: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	content, err := os.ReadFile(program)
	if err == nil {
		err = os.WriteFile(dir+"/program", content, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	f := firstFingerprint(t, newDriver(t, t.TempDir(), func(c *rawexec.Config) { c.Program = dir + "/program" }))
	if f.Health != driver.Unhealthy || !strings.Contains(f.Description, "noexec") || !strings.Contains(f.Description, dir) {
		t.Errorf("on a noexec file system: %+v", f)
	}
}

func TestHealthyAgainWhenTheProgramIsThere(t *testing.T) {
	path := t.TempDir() + "/program"
	d := newDriver(t, t.TempDir(), func(c *rawexec.Config) { c.Program = path })
	if f := firstFingerprint(t, d); f.Health != driver.Unhealthy {
		t.Errorf("without a program: %+v", f)
	}
	if err := os.Symlink(program, path); err != nil {
		t.Fatal(err)
	}
	if f := firstFingerprint(t, d); f.Health != driver.Healthy {
		t.Errorf("with a program: %+v", f)
	}
}
