package audit

import (
	"errors"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// complainEvery is the time between reports that a sink cannot be written.
const complainEvery = time.Minute

// Output is a log of lines.
type Output interface {
	io.Writer
	// Sync returns when what was written is on the disk.
	Sync() error
}

// Sink receives the events.
type Sink struct {
	Name   string
	Output Output
	// Enforced delivery refuses requests while events cannot be written. The events of requests other than reads are on the
	// disk before the request is served. Without it, events are lost with a warning.
	Enforced bool

	mu sync.Mutex
	// waiting are the events of requests that were served and whose end could not be written, of enforced delivery.
	waiting [][]byte
	// failed is how many events were not written since the last that was, complained is when that was logged.
	failed     int
	complained time.Time
}

// admit writes the events that wait and a line, which may be nil. Only enforced delivery fails.
func (s *Sink) admit(line []byte, writes bool, log hclog.Logger) error {
	err := s.catchUp()
	if err == nil && line != nil {
		err = s.put(line, writes)
	}
	s.report(err, line, log)
	if !s.Enforced {
		return nil
	}
	return withoutPath(err)
}

// complete writes the line of a request that was served. With enforced delivery a line that cannot be written waits, and
// no other request is served before.
func (s *Sink) complete(line []byte, writes bool, log hclog.Logger) {
	err := s.catchUp()
	if err == nil {
		err = s.put(line, writes)
	}
	if err != nil && s.Enforced {
		s.mu.Lock()
		s.waiting = append(s.waiting, line)
		s.mu.Unlock()
	}
	s.report(err, line, log)
}

func (s *Sink) put(line []byte, writes bool) error {
	_, err := s.Output.Write(line)
	if err == nil && s.Enforced && writes {
		err = s.Output.Sync()
	}
	return err
}

// catchUp writes the events that wait.
func (s *Sink) catchUp() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.waiting) > 0 {
		if err := s.put(s.waiting[0], true); err != nil {
			return err
		}
		s.waiting = s.waiting[1:]
	}
	return nil
}

// report logs that the sink cannot be written, at most once in complainEvery, and that it can be again.
func (s *Sink) report(err error, line []byte, log hclog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		if s.failed > 0 && line != nil {
			log.Warn("the audit log is written again", "sink", s.Name, "not_written", s.failed)
			s.failed, s.complained = 0, time.Time{}
		}
		return
	}
	s.failed++
	if time.Since(s.complained) < complainEvery {
		return
	}
	s.complained = time.Now()
	if s.Enforced {
		log.Error("audit log: requests are refused because their events cannot be written", "sink", s.Name, "error", err)
	} else {
		log.Warn("audit log: events are lost because they cannot be written", "sink", s.Name, "error", err)
	}
}

// withoutPath is the error without the file, which callers need not know.
func withoutPath(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
