package volumes

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/volumes/journal"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// Lease is what the tasks of an allocation have to keep.
type Lease struct {
	Term api.LeaseTerm
	// Unmount lists the paths to unmount after their end, inner ones first.
	Unmount []string
	// Beside lists where else the same volumes are mounted, for other allocations whose leases are no longer: a file
	// system that is mounted nowhere else may be shut down.
	Beside []string
}

// promise ensures that the lease of a row does not start again with the next agent process.
func (s *Service) promise(r *journal.Row) error {
	if r.Lease <= 0 || s.conf.Promise == nil {
		return nil
	}
	return s.conf.Promise()
}

// leased lists the rows that have something mounted under a lease, or may have.
func (s *Service) leased() []*journal.Row {
	rows := s.journal.Find(func(r *journal.Row) bool {
		return r.Lease > 0 && r.Touched() && r.State != journal.Released && r.BootID == s.bootID
	})
	return append(rows, s.unrecordedLeases(rows)...)
}

// Lease is the lease of an allocation's volumes: the one that ends its tasks first. nil means that there is none.
func (s *Service) Lease(allocID string) *Lease {
	var own []*journal.Row
	all := s.leased()
	var out *Lease
	for _, r := range all {
		if r.AllocID != allocID {
			continue
		}
		own = append(own, r)
		if out == nil || r.LeaseTerm().Stop() < out.Term.Stop() {
			out = &Lease{Term: r.LeaseTerm()}
		}
	}
	var staged []string
	for _, r := range own {
		out.Unmount = append(out.Unmount, r.Target.Host)
		others := slices.DeleteFunc(s.otherRows(r, all), func(o *journal.Row) bool { return o.AllocID == allocID })
		if usedAfter(out.Term, others) {
			continue
		}
		if r.Stages {
			staged = append(staged, r.Staging.Host)
		}
		for _, o := range others {
			out.Beside = append(out.Beside, o.Target.Host)
		}
	}
	if out != nil {
		out.Unmount = append(out.Unmount, staged...)
	}
	return out
}

// otherRows lists the other rows of a row's volume on this boot: those in leased, and those without a lease.
func (s *Service) otherRows(r *journal.Row, leased []*journal.Row) (out []*journal.Row) {
	for _, o := range leased {
		if o.Key() != r.Key() && o.Volume() == r.Volume() {
			out = append(out, o)
		}
	}
	for _, o := range s.journal.Users(r) {
		if o.Lease <= 0 && o.BootID == s.bootID {
			out = append(out, o)
		}
	}
	return out
}

// usedAfter reports whether another row allows use of the volume after the end of a lease.
func usedAfter(term api.LeaseTerm, others []*journal.Row) bool {
	return slices.ContainsFunc(others, func(o *journal.Row) bool { return o.Lease <= 0 || o.LeaseTerm().Stop() > term.Stop() })
}

// noEnd is the end of what has no lease.
const noEnd = time.Duration(math.MaxInt64)

// lastStops is when the last user of each volume ends.
func (s *Service) lastStops(leased []*journal.Row) map[string]time.Duration {
	last := map[string]time.Duration{}
	for _, r := range leased {
		last[r.Volume()] = max(last[r.Volume()], r.LeaseTerm().Stop())
	}
	for _, r := range s.journal.Find(func(r *journal.Row) bool {
		return r.Lease <= 0 && r.Touched() && r.State != journal.Released && r.BootID == s.bootID
	}) {
		last[r.Volume()] = noEnd
	}
	return last
}

// LeaseTerms returns the leases of all allocations that have one, as [Service.Lease] returns them.
func (s *Service) LeaseTerms() map[string]api.LeaseTerm {
	out := map[string]api.LeaseTerm{}
	for _, r := range s.leased() {
		if l, is := out[r.AllocID]; !is || r.LeaseTerm().Stop() < l.Stop() {
			out[r.AllocID] = r.LeaseTerm()
		}
	}
	return out
}

// Leased returns a function that reports whether an allocation has, or may have, something mounted under a lease. A
// mount whose allocation cannot be determined counts for every allocation. The function reports the state at its first
// call.
func (s *Service) Leased() func(allocID string) bool {
	look := sync.OnceValue(func() map[string]bool {
		out := map[string]bool{}
		for _, r := range s.leased() {
			out[r.AllocID] = true
		}
		return out
	})
	return func(allocID string) bool { return look()[allocID] || look()[""] }
}

// ShortestLease is the lease that ends its users first of all on the node; zero when there is none.
func (s *Service) ShortestLease() (term api.LeaseTerm) {
	for _, r := range s.leased() {
		if l := r.LeaseTerm(); term.Term == 0 || l.Stop() < term.Stop() {
			term = l
		}
	}
	return term
}

// leaseEnds is what was begun because leases end: file systems may hold it up.
type leaseEnds struct {
	mu    sync.Mutex
	begun map[string]bool
}

// first notes that something is begun; it reports false when it was before.
func (o *leaseEnds) first(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.begun[key] {
		return false
	}
	if o.begun == nil {
		o.begun = map[string]bool{}
	}
	o.begun[key] = true
	return true
}

// retain forgets what was begun for rows that are not in the list.
func (o *leaseEnds) retain(list []*journal.Row) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.begun) == 0 {
		return
	}
	known := map[string]bool{}
	for _, r := range list {
		known[r.Key()] = true
	}
	maps.DeleteFunc(o.begun, func(key string, _ bool) bool {
		_, of, _ := strings.Cut(key, " ")
		return !known[of]
	})
}

func (o *leaseEnds) forget(keys ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, k := range keys {
		delete(o.begun, k)
	}
}

// EndLeases does what is due after a silence of the servers, and records when they are heard again. It writes back
// volumes whose users no other process ends, and in the end cuts off whatever is still mounted. kept reports whether
// the tasks of an allocation have a process that does that; it may have died.
func (s *Service) EndLeases(silence time.Duration, kept func(allocID string) bool) {
	all := s.leased()
	s.leaseEnds.retain(all)
	look := sync.OnceValue(func() mountView { return s.viewMounts(all) })
	lastStops := sync.OnceValue(func() map[string]time.Duration { return s.lastStops(all) })
	for _, r := range all {
		// What is written while the users are killed is written back by the second time.
		sync, again, cut := "sync "+r.Key(), "again "+r.Key(), "cut "+r.Key()
		l := r.LeaseTerm()
		if silence < l.Stop() {
			s.leaseEnds.forget(sync, again)
			continue
		}
		if silence < l.Cut() && !kept(r.AllocID) {
			if s.leaseEnds.first(sync) || silence >= (l.Stop()+l.Cut())/2 && s.leaseEnds.first(again) {
				s.startSync(r, look())
			}
		}
		if silence >= l.Last() && s.leaseEnds.first(cut) {
			due := s.due(r, lastStops()[r.Volume()], look())
			go func() {
				s.cutOff(r, due)
				s.leaseEnds.forget(cut) // a call that was under way may mount it once more
			}()
		}
	}
}

// mountView is what was mounted at the paths of rows, the topmost where there are several, with the rest of the table. There is
// one for all rows: with a thousand volumes a look for each would be late.
type mountView struct {
	top map[string]*mounts.Entry
	all mounts.List
}

func (s *Service) viewMounts(rows []*journal.Row) (seen mountView) {
	var paths []string
	for _, r := range rows {
		paths = append(paths, r.Target.Host, r.Staging.Host)
	}
	var err error
	if seen.top, seen.all, err = s.host.Tops(paths); err != nil {
		s.log.Error("look at volumes", "error", err)
	}
	return seen
}

// startSync begins to write back the file system at a row's target, unless that is under way.
func (s *Service) startSync(r *journal.Row, seen mountView) {
	if r.Device() {
		return
	}
	at := seen.top[r.Target.Host]
	if at == nil {
		s.log.Warn("write a volume back whose lease ends: nothing is seen there", "volume_id", r.VolumeID, "path", r.Target.Host)
		return
	}
	s.pending.begin("sync "+at.Dev, func() error { return s.host.Sync(at) })
}

// due is what is taken from the node at the end of a row's lease: mounts, the topmost where there are several, and the
// paths whose file system is shut down when it is mounted nowhere else.
type due struct {
	mounts []*mounts.Entry
	own    []string
	seen   mounts.List
}

// due returns what is mounted at the row's paths. It leaves out what others use for longer, until last.
func (s *Service) due(r *journal.Row, last time.Duration, seen mountView) (d due) {
	d.seen = seen.all
	paths := []string{r.Target.Host}
	d.own = paths
	if last <= r.LeaseTerm().Stop() {
		d.own = s.ownPaths(r)
		if r.Stages {
			paths = append(paths, r.Staging.Host)
		}
	}
	for _, p := range paths {
		if at := seen.top[p]; at != nil {
			d.mounts = append(d.mounts, at)
		}
	}
	return d
}

// cutOff removes a volume from the node, with the data that is not written back, in the kernel and in the processes
// that served it. A mount that appears at its paths during a wait here belongs to another use.
func (s *Service) cutOff(r *journal.Row, d due) {
	for _, first := range d.mounts {
		if err := s.eachSince(d.seen, first, func(at *mounts.Entry) error { return s.cutOffMount(r, d, at) }); err != nil {
			s.log.Error("cut off a volume whose lease ends", "volume_id", r.VolumeID, "path", first.Point, "error", err)
		}
	}
	helpers := r.Helpers
	if st := s.journal.StageOf(r.PluginID, r.ExternalID); st != nil {
		helpers = slices.Concat(helpers, st.Helpers)
	}
	s.plugins.KillHelpers(helpers)
}

func (s *Service) cutOffMount(r *journal.Row, d due, at *mounts.Entry) error {
	whole := ownsAll(d.seen, at, d.own)
	s.log.Warn("a volume is mounted at the end of its lease: cut it off",
		"volume_id", r.VolumeID, "alloc_id", r.AllocID, "path", at.Point, "shut_down", whole)
	ctx, l := context.Background(), r.LeaseTerm()
	limit := max((l.Term-l.Last())/2, time.Millisecond)
	if whole {
		// A file system that hangs cannot be opened, which its shutdown needs.
		if err := s.pending.begin(callKey("shut down", at), func() error { return s.host.ShutDown(at) }).wait(ctx, limit); err != nil {
			s.log.Info("the file system cannot be shut down", "path", at.Point, "type", at.FSType, "error", err)
		}
		_ = s.pending.begin(callKey("abort", at), func() error { return s.host.Abort(at) }).wait(ctx, limit)
	}
	return s.pending.begin(callKey("detach", at), func() error { return s.host.Detach(at) }).wait(ctx, umountWait)
}

// ownPaths are the paths of the row's volume, for all its users.
func (s *Service) ownPaths(r *journal.Row) []string {
	own := []string{r.Target.Host}
	for _, o := range s.journal.Users(r) {
		own = append(own, o.Target.Host)
	}
	if st := s.journal.StageOf(r.PluginID, r.ExternalID); st != nil {
		own = append(own, st.Path.Host)
	}
	if r.Stages {
		own = append(own, r.Staging.Host)
	}
	return own
}

// ownsAll reports whether the file system is mounted at these paths only, and one of the mounts shows all of it:
// others would lose it too.
func ownsAll(table mounts.List, of *mounts.Entry, paths []string) (yes bool) {
	own := make(map[string]bool, len(paths))
	for _, p := range paths {
		own[p] = true
	}
	for _, e := range table {
		if e.Dev != of.Dev {
			continue
		}
		if !own[e.Point] {
			return false
		}
		yes = yes || e.Root == "/"
	}
	return yes
}
