package client

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/durable"
)

// votersFile holds the voters that the leader reported last: a new agent process that knows no leader must not count
// others in their place.
const votersFile = "voters"

func (c *Client) readVotersFile() {
	body, err := os.ReadFile(filepath.Join(c.conf.StateDir, votersFile))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	v := &api.Voters{}
	if err == nil {
		err = json.Unmarshal(body, v)
	}
	if err != nil {
		c.log.Warn("the voters of last time are not known: leases go on only while there is a leader", "error", err)
		return
	}
	c.voters.Store(v)
}

// votersReceived takes over the voters of a reply. Each set that a leader reports was committed, which is all that
// counting needs. No set is known while it changes, and the previous one is kept.
func (c *Client) votersReceived(v *api.Voters) {
	if v == nil || reflect.DeepEqual(v, c.voters.Load()) {
		return
	}
	c.voters.Store(v)
	body, err := json.Marshal(v)
	c.files.voters.begin(func() error {
		if err == nil {
			err = durable.WriteFile(filepath.Join(c.conf.StateDir, votersFile), body, 0o600)
		}
		if err != nil {
			c.log.Warn("keep the voters among the servers", "error", err)
		}
		return err
	})
}
