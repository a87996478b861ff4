package volumes

import (
	"bytes"
	"path/filepath"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/csiplugins"
)

// The journal has a spare copy, in another file than the journal: without a record nobody knows what the driver calls a
// volume, and so nobody can have it end a session that the mount table does not show. The copy has what the journal has, or
// less, and outlives what mounts outlive.

// spare is the copy of a journal.
type spare struct {
	// bucket is nil where there is none.
	bucket csiplugins.Bucket
	// copying are the copies that are being written, by key.
	copying map[string]*copying
	// hangs is set when somebody was told that a copy hangs; tell, which must not block, does, and that it does not any more.
	hangs bool
	tell  func(error)
	// lost is set when the journal was, as a whole, and may not have all of the copy yet: then the copy is the journal.
	lost bool
	// unwritten is set when the journal could not be given something that the copy has.
	unwritten bool
	// found are the keys of rows that were lost with the journal, or may have been. Running tasks may use what they tell of, though nobody knows their
	// allocations, until all tasks have ended that nobody knows.
	found map[string]bool
}

// copies is what the copy has.
func (j *journal) copies() map[string][]byte {
	if j.spare.bucket == nil {
		return nil
	}
	all, err := j.spare.bucket.All()
	if err != nil {
		j.log.Error("read the copy of the volume journal", "error", err)
	}
	return all
}

// restore takes from the copy what a lost journal had, and brings the copy up to date otherwise.
func (j *journal) restore(raw, copies map[string][]byte) {
	if j.spare.bucket == nil {
		return
	}
	j.spare.found = map[string]bool{}
	for key, value := range copies {
		if raw[key] != nil {
			continue
		}
		if !j.spare.lost {
			j.copy(key, nil)
			continue
		}
		if err := j.read(key, value); err != nil {
			j.log.Error("the copy of a record of the volume journal cannot be read", "key", key, "error", err)
			continue
		}
		if r := j.byKey[key]; r != nil {
			if !r.touched() || r.State == rowReleased { // nothing is on the node
				j.drop(key)
				j.copy(key, nil)
				continue
			}
			j.spare.found[key] = true
		}
		j.log.Warn("a record that the volume journal has lost is taken from its copy", "key", key)
		if err := j.bucket.Put(key, value); err != nil {
			j.log.Error("write volume journal", "key", key, "error", err)
			j.spare.unwritten = true
		}
	}
	for key, value := range raw {
		if r := j.byKey[key]; r != nil && j.spare.lost { // an earlier process may have taken it from the copy
			j.spare.found[key] = true
		}
		if !j.damaged[key] && !bytes.Equal(copies[key], value) {
			j.copy(key, value)
		}
	}
}

// copying is what is being done about the copy of one record.
type copying struct {
	// want is what the copy is to be, nil for none; changed is set when that has changed since it was begun.
	want    []byte
	changed bool
	since   time.Time
	// over is closed when nothing is left to do.
	over chan struct{}
}

// copy writes, or removes, the copy of a record, beside: the disk may hang. It is best effort: an old copy is worse than
// none.
func (j *journal) copy(key string, raw []byte) (over <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := j.spare.copying[key]
	if c == nil {
		c = &copying{since: time.Now(), over: make(chan struct{})}
		if j.spare.bucket == nil {
			close(c.over)
			return c.over
		}
		j.spare.copying[key] = c
		go j.leadCopy(key, c)
	}
	if time.Since(c.since) >= writeWait && !j.spare.hangs {
		j.spare.hangs = true
		j.log.Warn("the disk does not answer below the copy of the volume journal", "since", c.since)
		j.spare.tell(fault.New(fault.Unavailable, "the disk of the node has not answered since %s", c.since.UTC().Format(time.RFC3339)))
	}
	c.want, c.changed = raw, true
	return c.over
}

func (j *journal) leadCopy(key string, c *copying) {
	for {
		j.mu.Lock()
		if !c.changed {
			delete(j.spare.copying, key)
			close(c.over)
			j.mu.Unlock()
			return
		}
		raw := c.want
		c.changed = false
		j.mu.Unlock()
		j.copyNow(key, raw)
		j.mu.Lock()
		if c.since = time.Now(); j.spare.hangs {
			j.spare.hangs = false
			j.spare.tell(nil)
		}
		j.mu.Unlock()
	}
}

func (j *journal) copyNow(key string, raw []byte) {
	if raw != nil {
		err := j.spare.bucket.Put(key, raw)
		if err == nil {
			return
		}
		j.log.Debug("copy a record of the volume journal", "key", key, "error", err)
	}
	if err := j.spare.bucket.Delete(key); err != nil {
		j.log.Debug("remove the copy of a record of the volume journal", "key", key, "error", err)
	}
}

// isFound reports whether the row was lost with the journal, or may have been.
func (j *journal) isFound(key string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.spare.found[key]
}

// planFound plans to take down what was lost with the journal, once nobody can have it.
func (s *Service) planFound() {
	for _, r := range s.journal.find(func(r *row) bool { return s.journal.spare.found[r.id] }) {
		if _, is := s.live.get(r.AllocID); !is && !s.strays.isListed(filepath.Base(r.Target.Host)) {
			s.retries.Add(r.key())
		}
	}
}
