package recovery

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/fsm/disk"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Plan is what an operator has done to the log of a server that cannot start, or has no quorum. Without Skip, Cut
// and Peers nothing changes.
type Plan struct {
	// Dir holds log and snapshots; ID is the server's.
	Dir, ID  string
	Registry *fsm.Registry
	// Skip is the index of an entry that shall do nothing.
	Skip uint64
	// Cut is the index of the first entry that is dropped, with all after it.
	Cut uint64
	// Peers, when there are any, are the only servers of the cluster from now on.
	Peers []api.RaftServer
	Now   time.Time
	Log   hclog.Logger
}

// Result describes the contents of a log and the changes made.
type Result struct {
	// Snapshot is the index of the snapshot that a start begins with; First and Last are those of the log after it.
	Snapshot, First, Last uint64
	// Damaged are newer snapshots that cannot be read; the log makes up for them.
	Damaged []string
	// Bad is the first entry that cannot be read or applied and Why is the reason; 0 when a server would start.
	Bad uint64
	Why error
	// Backup is the copy of the directory as it was; empty when nothing was to be changed.
	Backup string
}

// Run inspects the log of a stopped server and, after making a copy, applies the requested changes.
func Run(r Plan) (*Result, error) {
	if _, err := os.Stat(filepath.Join(r.Dir, "wal")); err != nil {
		return nil, fault.New(fault.NotFound, "there is no raft log in %s", r.Dir)
	}
	out := &Result{}
	if r.Skip > 0 || r.Cut > 0 || len(r.Peers) > 0 {
		var err error
		if out.Backup, err = r.backup(); err != nil {
			return nil, err
		}
	}
	st, err := disk.Open(r.Dir, r.Log)
	if err != nil {
		return out, err
	}
	err = r.change(st, out)
	return out, errors.Join(err, st.Close())
}

// backup copies the directory next to the original.
func (r Plan) backup() (string, error) {
	lock, err := disk.Lock(r.Dir)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	to := filepath.Clean(r.Dir) + ".backup-" + r.Now.UTC().Format("20060102T150405Z")
	if err := os.Mkdir(to, 0o700); err != nil {
		return "", fmt.Errorf("back up the raft log: %w", err)
	}
	if err := os.CopyFS(to, os.DirFS(r.Dir)); err != nil {
		return "", fmt.Errorf("back up the raft log: %w", err)
	}
	return to, nil
}

func (r Plan) change(st *disk.Stores, out *Result) error {
	first, err := st.Logs.FirstIndex()
	if err != nil {
		return err
	}
	last, err := st.Logs.LastIndex()
	if err != nil {
		return err
	}
	for what, index := range map[string]uint64{"skip": r.Skip, "cut": r.Cut} {
		if index != 0 && (index < first || index > last || last == 0) {
			return fault.New(fault.Invalid, "%s: there is no entry %d in the log, which has those from %d to %d", what, index, first, last)
		}
	}
	if r.Cut > 0 {
		if err := st.Logs.DeleteRange(r.Cut, last); err != nil {
			return fmt.Errorf("cut the log at entry %d: %w", r.Cut, err)
		}
		last = r.Cut - 1
	}
	if r.Skip > 0 && r.Skip <= last {
		if err := skipEntry(st.Logs, r.Skip, last); err != nil {
			return fmt.Errorf("skip entry %d: %w", r.Skip, err)
		}
	}
	if err := r.replay(st, out); err != nil || len(r.Peers) == 0 {
		return err
	}
	if out.Bad != 0 {
		return fault.New(fault.Conflict, "entry %d must be skipped or cut before the peers are set: %w", out.Bad, out.Why)
	}
	return r.setPeers(st)
}

// skipEntry puts an entry that does nothing in the place of one.
func skipEntry(logs raft.LogStore, index, last uint64) error {
	var tail []*raft.Log
	for i := index; i <= last; i++ {
		l := &raft.Log{Index: i}
		// The entry to skip may be damaged so that not even its term can be read: that of its neighbour will do.
		if err := logs.GetLog(i, l); err != nil && i != index {
			return fmt.Errorf("read entry %d: %w", i, err)
		}
		tail = append(tail, l)
	}
	bad := tail[0]
	if bad.Term == 0 && len(tail) > 1 {
		bad.Term = tail[1].Term
	}
	tail[0] = &raft.Log{Index: index, Term: bad.Term, Type: raft.LogNoop, AppendedAt: bad.AppendedAt}
	if err := logs.DeleteRange(index, last); err != nil {
		return err
	}
	return logs.StoreLogs(tail)
}

// replay does what a start does, and notes the first entry at which it would end.
func (r Plan) replay(st *disk.Stores, out *Result) error {
	s := state.New()
	m := fsm.NewMachine(s, r.Registry, hclog.NewNullLogger())
	b, err := disk.Begin(m, st, r.Dir)
	if err == nil && out.Backup != "" {
		err = b.SetAside(r.Dir)
	}
	if err != nil {
		return err
	}
	out.Snapshot, out.Damaged = b.Index, b.Damaged
	if out.First, err = st.Logs.FirstIndex(); err != nil {
		return err
	}
	if out.Last, err = st.Logs.LastIndex(); err != nil {
		return err
	}
	for i := max(out.First, out.Snapshot+1); i <= out.Last && i > 0; i++ {
		var l raft.Log
		if err := disk.VerifyEntry(st.Logs, i); err != nil {
			out.Bad, out.Why = i, err
			return nil
		}
		if err := st.Logs.GetLog(i, &l); err != nil {
			return err
		}
		m.Apply(&l)
		if err := m.Failure(); err != nil {
			out.Bad, out.Why = i, err
			return nil
		}
	}
	return nil
}

// setPeers writes a snapshot of the state with another configuration, which takes the place of the log.
func (r Plan) setPeers(st *disk.Stores) error {
	s := state.New()
	var conf raft.Configuration
	for _, p := range r.Peers {
		suffrage := raft.Nonvoter
		if p.Voter {
			suffrage = raft.Voter
		}
		conf.Servers = append(conf.Servers, raft.Server{ID: raft.ServerID(p.ID), Address: raft.ServerAddress(p.Address), Suffrage: suffrage})
	}
	c := raft.DefaultConfig()
	c.LocalID, c.Logger = raft.ServerID(r.ID), r.Log.Named("raft")
	_, transport := raft.NewInmemTransport("")
	m := fsm.NewMachine(s, r.Registry, hclog.NewNullLogger())
	if err := raft.RecoverCluster(c, m, st.Logs, st.Stable, st.Snapshots, transport, conf); err != nil {
		return fmt.Errorf("set the peers: %w", err)
	}
	return nil
}
