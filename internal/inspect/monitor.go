package inspect

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

const (
	// monitorsMax is how many sessions follow a log at a time.
	monitorsMax = 32
	// keptMax bounds what a session keeps for a slow caller, in bytes; newer lines are dropped and counted.
	keptMax = 1 << 20
	// pieceMax bounds the data of a reply in bytes.
	pieceMax = 256 << 10
	// unusedMax is how long a session lives without a request.
	unusedMax = 30 * time.Second
	// waitMax bounds a request.
	waitMax = 10 * time.Second
)

// monitor is a session that follows a log. It is the output of a sink of the log.
type monitor struct {
	mu   sync.Mutex
	kept []byte
	// removed is the position of the first kept byte.
	removed int64
	dropped int
	json    bool
	// news is signalled when a line is added.
	news chan struct{}
}

// source is what a session reads.
type source interface {
	// piece returns what follows the position, the position of its end, and whether nothing follows that.
	piece(position int64) (data []byte, next int64, done bool, err error)
}

// session is a source with what ends it.
type session struct {
	source
	news   chan struct{}
	remove func()
	unused *time.Timer
}

// Write implements [io.Writer]; each call is one line. It never blocks the agent that logs.
func (m *monitor) Write(line []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case len(m.kept)+len(line) > keptMax:
		m.dropped++
		return len(line), nil
	case m.dropped > 0:
		format := "[WARN] %d lines are left out: the reader is too slow\n"
		if m.json {
			format = `{"@level":"warn","@message":"%d lines are left out: the reader is too slow"}` + "\n"
		}
		m.kept = fmt.Appendf(m.kept, format, m.dropped)
		m.dropped = 0
	}
	m.kept = append(m.kept, line...)
	select {
	case m.news <- struct{}{}:
	default:
	}
	return len(line), nil
}

// piece removes what the caller has, and returns the next whole lines with the position of their end.
func (m *monitor) piece(position int64) ([]byte, int64, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := position - m.removed
	if n < 0 || n > int64(len(m.kept)) {
		return nil, 0, false, fault.New(fault.Invalid, "position %d is not in the log session, which has bytes %d to %d", position, m.removed, m.removed+int64(len(m.kept)))
	}
	m.kept, m.removed = append([]byte(nil), m.kept[n:]...), position
	out := m.kept
	if len(out) > pieceMax {
		out = out[:pieceMax]
		if end := bytes.LastIndexByte(out, '\n'); end >= 0 {
			out = out[:end+1]
		}
	}
	return bytes.Clone(out), position + int64(len(out)), false, nil
}

// Monitor reads the log of the agent as it is written.
func (a *Agent) Monitor(ctx context.Context, r *api.AgentMonitorRequest) (*api.AgentMonitorResponse, error) {
	id, m, err := a.session(r)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(min(max(r.Wait, 0), waitMax))
	defer timer.Stop()
	for {
		data, position, done, err := m.piece(r.Position)
		if err != nil || len(data) > 0 || done {
			return &api.AgentMonitorResponse{Session: id, Data: data, Position: position, Done: done}, err
		}
		select {
		case <-m.news:
		case <-timer.C:
			return &api.AgentMonitorResponse{Session: id, Position: position}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// session returns the session of a request, or begins one.
func (a *Agent) session(r *api.AgentMonitorRequest) (string, *session, error) {
	if a == nil {
		return "", nil, fault.New(fault.Unimplemented, "the log of this agent cannot be followed")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Session != "" {
		m := a.open[r.Session]
		if m == nil {
			return "", nil, fault.New(fault.NotFound, "the log session has ended: begin a new one")
		}
		m.unused.Reset(unusedMax)
		return r.Session, m, nil
	}
	if len(a.open) >= monitorsMax {
		return "", nil, fault.New(fault.Exhausted, "%d sessions follow the log of this agent, more are not possible: end one and try again", len(a.open))
	}
	begin := a.begin
	if r.OnDisk || r.ServiceName != "" {
		begin = a.export
	}
	m, err := begin(r)
	if err != nil {
		return "", nil, err
	}
	id := rand.Text()
	m.unused = time.AfterFunc(unusedMax, func() { a.end(id) })
	a.open[id] = m
	return id, m, nil
}

// begin follows the log as it is written.
func (a *Agent) begin(r *api.AgentMonitorRequest) (*session, error) {
	log, ok := a.conf.Log.(hclog.InterceptLogger)
	if !ok {
		return nil, fault.New(fault.Unimplemented, "the log of this agent cannot be followed")
	}
	level := hclog.Info
	if r.LogLevel != "" {
		if level = hclog.LevelFromString(r.LogLevel); level == hclog.NoLevel || level == hclog.Off {
			return nil, fault.New(fault.Invalid, "Unknown log level: %.40q is not one of trace, debug, info, warn, error", r.LogLevel)
		}
	}
	m := &monitor{news: make(chan struct{}, 1), json: r.LogJSON}
	sink := hclog.NewSinkAdapter(&hclog.LoggerOptions{Level: level, Output: m, JSONFormat: r.LogJSON, IncludeLocation: r.IncludeLocation})
	log.RegisterSink(sink)
	return &session{source: m, news: m.news, remove: func() { log.DeregisterSink(sink) }}, nil
}

func (a *Agent) end(id string) {
	a.mu.Lock()
	m := a.open[id]
	delete(a.open, id)
	a.mu.Unlock()
	if m != nil {
		m.remove()
	}
}
