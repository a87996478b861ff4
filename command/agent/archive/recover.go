package archive

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm/recovery"
)

// Recover looks at the raft log in the data directory of a stopped agent. It changes the log, after a copy was made,
// when an entry is to be skipped or cut, or a file of peers is given.
func Recover(dataDir string, skip, cut uint64, peersFile string) (*recovery.Result, error) {
	server, err := serverDir(dataDir)
	if err != nil {
		return nil, err
	}
	id, err := os.ReadFile(filepath.Join(server, "server_id"))
	if err != nil {
		return nil, fault.New(fault.NotFound, "the server's id: %w", err)
	}
	r := recovery.Plan{
		Dir: filepath.Join(server, "raft"), ID: strings.TrimSpace(string(id)), Registry: nomad.Commands(),
		Skip: skip, Cut: cut, Now: time.Now(), Log: hclog.NewNullLogger(),
	}
	if peersFile != "" {
		if r.Peers, err = peers(peersFile); err != nil {
			return nil, err
		}
	}
	return recovery.Run(r)
}

// serverDir finds the server's directory in that of its agent.
func serverDir(dataDir string) (string, error) {
	for _, dir := range []string{filepath.Join(dataDir, "server"), dataDir} {
		if _, err := os.Stat(filepath.Join(dir, "raft", "wal")); err == nil {
			return dir, nil
		}
	}
	return "", fault.New(fault.NotFound, "there is no raft log of a server in %s", dataDir)
}

// peers reads the file with the voters.
func peers(path string) ([]api.RaftServer, error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.New(fault.Invalid, "peers: %w", err)
	}
	var list []struct {
		ID       string `json:"id"`
		Address  string `json:"address"`
		NonVoter bool   `json:"non_voter"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fault.New(fault.Invalid, "peers: %s is no list of objects with id and address: %w", path, err)
	}
	var out []api.RaftServer
	voters := 0
	for i, p := range list {
		if p.ID == "" || p.Address == "" {
			return nil, fault.New(fault.Invalid, "peers: number %d of %s has no id or no address", i+1, path)
		}
		if !p.NonVoter {
			voters++
		}
		out = append(out, api.RaftServer{ID: p.ID, Address: p.Address, Voter: !p.NonVoter})
	}
	if voters == 0 {
		return nil, fault.New(fault.Invalid, "peers: %s contains no voter", path)
	}
	return out, nil
}

// Words describe what was found and done, line by line.
func Words(r *recovery.Result) []string {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if r.Backup != "" {
		say("The log as it was is in %s", r.Backup)
	}
	say("Snapshot at %d, log from %d to %d", r.Snapshot, r.First, r.Last)
	for _, name := range r.Damaged {
		say("Snapshot %s cannot be read; the one before and the log make up for it", name)
	}
	if r.Bad == 0 {
		say("All of it can be read and applied")
		return lines
	}
	say("Entry %d ends this server: %v", r.Bad, r.Why)
	say("Start a newer program if it asks for one. Otherwise -skip %d has the entry do nothing, and -cut %d drops it", r.Bad, r.Bad)
	say("with all that follows. Do the same on every server before any of them is started.")
	return lines
}
