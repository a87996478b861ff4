package client

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/internal/durable"
)

// serversFile holds the servers that were reported last, one address a line: a node whose configured servers no longer
// exist finds the cluster through them.
const serversFile = "servers"

// readServersFile passes the servers of an earlier agent process to the link. Without them the node depends on its
// configuration, so that no failure is returned.
func (c *Client) readServersFile() {
	body, err := os.ReadFile(filepath.Join(c.conf.StateDir, serversFile))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			c.log.Warn("the servers of last time are not known", "error", err)
		}
		return
	}
	servers := strings.Fields(string(body))
	c.servers.Store(&servers)
	c.conf.Servers.Remember(servers)
}

// serversReceived stores the servers of a reply for the next agent process. Heartbeats do not wait for the disk.
func (c *Client) serversReceived(servers []string) {
	if len(servers) == 0 {
		return
	}
	c.conf.Servers.SetServers(servers)
	sorted := slices.Sorted(slices.Values(servers))
	if kept := c.servers.Load(); kept != nil && slices.Equal(sorted, *kept) {
		return
	}
	c.files.servers.begin(func() error {
		err := durable.WriteFile(filepath.Join(c.conf.StateDir, serversFile), []byte(strings.Join(sorted, "\n")+"\n"), 0o600)
		if err != nil {
			c.log.Warn("keep the list of servers", "error", err)
			return err
		}
		c.servers.Store(&sorted)
		return nil
	})
}
