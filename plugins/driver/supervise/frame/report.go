package frame

// Running names the task's main process; its PID is 0 once that has ended.
type Running struct {
	TaskID string
	PID    int64
	// StartedAt is in Unix nanoseconds.
	StartedAt int64
	// LeaseOf is [Spec].LeaseOf.
	LeaseOf string
}

// Encode makes the report the body of a frame.
func (m *Running) Encode() []byte {
	var w writer
	w.str(m.TaskID)
	w.num(m.PID)
	w.num(m.StartedAt)
	w.str(m.LeaseOf)
	return w
}

// Decode reads the body of a running frame; older programs do not report whose lease they keep.
func (m *Running) Decode(b []byte) error {
	r := reader{b: string(b)}
	m.TaskID, m.PID, m.StartedAt, m.LeaseOf = r.str(), r.num(), r.num(), ""
	if len(r.b) > 0 {
		m.LeaseOf = r.str()
	}
	return r.end()
}

// Failed is the reason why the task was not started.
type Failed struct {
	// Again means that the same spec may work later.
	Again bool
	Text  string
}

// Encode makes the report the body of a frame.
func (m *Failed) Encode() []byte {
	var w writer
	w.flag(m.Again)
	w.str(m.Text)
	return w
}

// Decode reads the body of a failed frame.
func (m *Failed) Decode(b []byte) error {
	r := reader{b: string(b)}
	m.Again, m.Text = r.flag(), r.str()
	return r.end()
}

// ExitedMax is more than the bytes of any [Exited].
const ExitedMax = 128

// Exited describes how the main process ended.
type Exited struct {
	Code   int64
	Signal int64
	OOM    bool
	// FinishedAt is in Unix nanoseconds.
	FinishedAt int64
	// LeaseEnded means that the task was killed because its lease had ended.
	LeaseEnded bool
	// Keeps means that the supervising process stays, to keep the lease.
	Keeps bool
}

// Encode makes the report the body of a frame.
func (m *Exited) Encode() []byte {
	var w writer
	w.num(m.Code)
	w.num(m.Signal)
	w.flag(m.OOM)
	w.num(m.FinishedAt)
	w.flag(m.LeaseEnded)
	w.flag(m.Keeps)
	return w
}

// Decode reads the body of an exited frame, or the exit file; those of older programs know no leases.
func (m *Exited) Decode(b []byte) error {
	r := reader{b: string(b)}
	m.Code, m.Signal, m.OOM, m.FinishedAt = r.num(), r.num(), r.flag(), r.num()
	m.LeaseEnded = len(r.b) > 0 && r.flag()
	m.Keeps = len(r.b) > 0 && r.flag()
	return r.end()
}
