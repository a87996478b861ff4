package dirs

import (
	"errors"
	"os"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
)

// TestSecretsThatAreBeingUnmountedAreNotRead: a user has opened one through a link of the task just before.
func TestSecretsThatAreBeingUnmountedAreNotRead(t *testing.T) {
	a, err := New(t.TempDir()).InMemory().Alloc("a1")
	if err == nil {
		err = errors.Join(a.Build(), a.BuildTask("web"), a.MountSecrets("web", 0))
	}
	t.Cleanup(func() { _ = a.UnmountSecrets() })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(a.Task("web").Secrets() + "/" + markerName); err != nil {
		t.Skip("needs the right to mount")
	}
	root, err := os.OpenRoot(a.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	f, err := root.Open("web/secrets/" + markerName)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := a.UnmountSecrets(); err != nil {
		t.Fatal(err)
	}
	if err := keepsSecrets(root, f); !errors.Is(err, fault.Denied) {
		t.Errorf("got %v", err)
	}
}
