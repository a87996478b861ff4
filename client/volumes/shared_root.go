package volumes

import (
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// sharing is how the directory of volumes is shared with those who copy mounts.
type sharing struct {
	mu sync.Mutex
	// told is the last reported reason why the directory is not shared; empty while it is shared.
	told string
}

// shareRoot creates the directory of volumes, and shares it where possible. Where it is not possible volumes are
// mounted all the same, and each reason is reported once: a task that has copied another one's mount keeps it, and
// with it the device.
func (s *Service) shareRoot() {
	err := s.plugins.PrepareRoot()
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	s.sharing.mu.Lock()
	news := s.sharing.told != reason
	s.sharing.told = reason
	s.sharing.mu.Unlock()
	if !news {
		return
	}
	d := map[string]string{"success": "true", "path": s.root}
	if err != nil {
		d["success"], d["error"] = "false", reason
		s.log.Warn("the directory of volumes is not shared: an unmount does not reach tasks that have copied the mount, nor a mount plugins that are isolated", "error", err)
	}
	s.conf.NodeEvent(&api.NodeEvent{Subsystem: "Storage", Message: "Share mounts with tasks", Details: d, Timestamp: time.Now()})
}
