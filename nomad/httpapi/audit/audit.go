package audit

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
)

// Config configures an audit log.
type Config struct {
	// Sinks receive the events.
	Sinks []*Sink
	// Filters drop events.
	Filters []Filter
	// Address is that of the agent's HTTP API.
	Address string
	// Servers resolve tokens.
	Servers wire.Caller
	// CPU limits what is computed for one client address.
	CPU *cpulimit.Limit
	Log hclog.Logger
}

// auditor is the handler of [New].
type auditor struct {
	Config
	next    http.Handler
	callers callers
}

// New records the requests that next serves.
func New(next http.Handler, c Config) http.Handler {
	return &auditor{Config: c, next: next, callers: callers{servers: c.Servers, known: map[callerKey]known{}}}
}

// ServeHTTP implements [http.Handler].
func (a *auditor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	received, complete := a.keeps(r, OperationReceived), a.keeps(r, OperationComplete)
	if !received && !complete {
		a.next.ServeHTTP(w, r)
		return
	}
	e := &event{EventType: "audit", Payload: payload{
		ID: uuid.NewString(), Type: "audit", Version: 1,
		Auth: a.callers.find(a.CPU.For(r.Context(), r.RemoteAddr), r), Request: a.request(r),
	}}
	if err := a.admit(e, received); err != nil {
		text := "audit log: the event of this request cannot be written, and the request was not served: " + err.Error()
		http.Error(w, text, http.StatusInternalServerError)
		return
	}
	if !complete {
		a.next.ServeHTTP(w, r)
		return
	}
	rec := &recorder{ResponseWriter: w}
	cut := true
	defer func() { a.complete(e, rec.response(r, cut)) }()
	a.next.ServeHTTP(rec, r)
	cut = false
}

// keeps reports whether the event of a stage passes all filters.
func (a *auditor) keeps(r *http.Request, stage string) bool {
	for i := range a.Filters {
		if a.Filters[i].drops(r, stage) {
			return false
		}
	}
	return true
}

// admit writes the event of a request that was received, if it is kept, and the events that wait. It fails when a sink
// with enforced delivery cannot be written.
func (a *auditor) admit(e *event, received bool) error {
	var line []byte
	if received {
		line = e.at(OperationReceived)
	}
	var errs []error
	for _, s := range a.Sinks {
		errs = append(errs, s.admit(line, e.writes(), a.Log))
	}
	return errors.Join(errs...)
}

func (a *auditor) complete(e *event, outcome *response) {
	e.Payload.Response = outcome
	line := e.at(OperationComplete)
	for _, s := range a.Sinks {
		s.complete(line, e.writes(), a.Log)
	}
}

// at is the line of the event at a stage, now.
func (e *event) at(stage string) []byte {
	e.CreatedAt = time.Now()
	e.Payload.Stage, e.Payload.Timestamp = stage, e.CreatedAt
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // texts and numbers only
	}
	return append(line, '\n')
}

// recorder remembers the code of a response.
type recorder struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements [http.ResponseWriter].
func (w *recorder) WriteHeader(code int) {
	if w.code == 0 && code >= http.StatusOK {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements [http.ResponseWriter].
func (w *recorder) Write(b []byte) (int, error) {
	w.begun()
	return w.ResponseWriter.Write(b)
}

// Flush implements [http.Flusher].
func (w *recorder) Flush() {
	w.begun()
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap implements the interface of [http.ResponseController].
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorder) begun() {
	if w.code == 0 {
		w.code = http.StatusOK
	}
}

// response describes the outcome of a request. The handler was cut when it panicked, as streams do that lack a part.
func (w *recorder) response(r *http.Request, cut bool) *response {
	out := &response{StatusCode: w.code}
	switch {
	case cut:
		out.Error = "the response was cut"
	case w.code == 0 && r.Context().Err() != nil:
		out.Error = "the client closed the connection"
	case w.code == 0:
		out.StatusCode = http.StatusOK
	case w.code == http.StatusForbidden:
		out.Error = "Permission denied"
	case w.code >= http.StatusBadRequest:
		out.Error = http.StatusText(w.code)
	}
	return out
}
