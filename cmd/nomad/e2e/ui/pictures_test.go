//go:build pictures

package ui

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// TestPictures makes the pictures of docs/ui.md in the directory that PICTURES names, from a cluster with a volume that one
// job holds and another waits for.
func TestPictures(t *testing.T) {
	dir := os.Getenv("PICTURES")
	if dir == "" {
		t.Fatal("PICTURES names no directory: run make pictures")
	}
	a := kit.Start(t)
	a.Plugin("plug")
	a.CreateVolume("plug", "data")
	shell := func(id string) *api.Job {
		return kit.WithVolume(kit.ShellJob(id, "while true; do echo \"$(date +%T) wrote a record\"; sleep 1; done"), "data")
	}
	a.Register(shell("database"))
	alloc := a.Running("database", 1)
	a.Register(shell("migration"))
	a.Register(kit.ShellJob("web", "exec sleep 1000"))
	a.Running("web", 1)
	b := newBrowser(t, a.API.Address())
	b.signIn(kit.Token())
	for _, p := range []struct{ name, path, shows string }{
		{"jobs", "/ui/jobs", "migration"},
		{"volume", "/ui/storage/volumes/csi/data@default", "nomad job status migration"},
		{"allocation", "/ui/allocations/" + alloc.ID, "Started"},
		{"topology", "/ui/topology", "vm"},
	} {
		b.visit(p.path)
		b.see(p.shows)
		b.until("the page", "!document.querySelector('[aria-busy]')")
		var picture []byte
		b.do("take a picture", chromedp.EmulateViewport(1100, 760), chromedp.CaptureScreenshot(&picture))
		if err := os.WriteFile(filepath.Join(dir, p.name+".png"), picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b.clean()
}
