package networks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// namespacePath is where the namespace of an allocation is mounted.
func (s *Service) namespacePath(allocID string) string {
	return filepath.Join(s.conf.Dir, "netns", s.conf.NodeID, filepath.Base(allocID))
}

// makeNamespace makes the namespace of an allocation unless it is there. Its loopback interface is up.
func (s *Service) makeNamespace(allocID string) error {
	path := s.namespacePath(allocID)
	if isNamespace(path) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make directory of network namespaces: %w", err)
	}
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		return fmt.Errorf("make network namespace: %w", err)
	}
	err := inNew(func() error { return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "") })
	if err != nil {
		_ = os.Remove(path)
		return fmt.Errorf("make network namespace: %w", err)
	}
	return nil
}

// inNew runs do in a new network namespace, whose loopback interface is up.
func inNew(do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			lo, err := netlink.LinkByName("lo")
			if err == nil {
				err = netlink.LinkSetUp(lo)
			}
			if err != nil {
				return fmt.Errorf("loopback interface: %w", err)
			}
			return do()
		}()
	}()
	return <-done
}

// isNamespace reports whether a namespace is mounted at the path.
func isNamespace(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Type == unix.NSFS_MAGIC
}

func (s *Service) removeNamespace(allocID string) error {
	path := s.namespacePath(allocID)
	for isNamespace(path) {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("remove network namespace: %w", err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove network namespace: %w", err)
	}
	return nil
}
