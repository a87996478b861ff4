package frame

// Kind is the type of a frame's body.
type Kind byte

// The kinds of frames.
const (
	// KindSpec carries a Spec to the supervising process.
	KindSpec Kind = 's'
	// KindSignal carries a signal number, as one byte, for the main process.
	KindSignal Kind = 'k'
	// KindKill asks to kill everything that the task started.
	KindKill Kind = 'K'
	// KindLease carries the time, as eight bytes, that a lease counts from: CLOCK_BOOTTIME in nanoseconds.
	KindLease Kind = 'L'
	// KindRelease ends the keeping of a lease after the exit of the task: its volumes are unmounted, or another process
	// keeps it.
	KindRelease Kind = 'E'
	// KindCommand asks to run a command inside the task, on this connection only: it comes with [CommandFiles] descriptors.
	// The replies are the same kind when the order is taken, a Running of the command, or a Failed, and an Exited. KindKill,
	// and the end of the connection, kill the command and all that it has started.
	KindCommand Kind = 'C'
	// KindInit carries a Spec to the first process of a task's own process namespace, KindEnter to the process that
	// becomes an isolated task, KindJoin to one that becomes a command inside of it. The reply is a Failed, or that the
	// connection ends.
	KindInit  Kind = 'I'
	KindEnter Kind = 'T'
	KindJoin  Kind = 'J'
	// KindRunning carries a Running.
	KindRunning Kind = 'R'
	// KindFailed carries a Failed: the task was not started.
	KindFailed Kind = 'F'
	// KindExited carries an Exited.
	KindExited Kind = 'X'
)

// ExitUnasked is the code with which the supervising process ends when no agent gave it a task.
const ExitUnasked = 2

// HeaderSize is the length of a frame without its body.
const HeaderSize = 5

// BodyMax bounds the body of a frame in bytes.
const BodyMax = 16 << 20

// Error is a reason for refusing bytes.
type Error string

// Error makes the reason an error.
func (e Error) Error() string { return string(e) }

// ErrMalformed means that bytes are not a frame of the expected kind.
const ErrMalformed = Error("malformed frame")

// Header takes the kind and the body's length from the first HeaderSize bytes of a frame.
func Header(b []byte) (Kind, int, error) {
	if len(b) < HeaderSize {
		return 0, 0, ErrMalformed
	}
	n := int(b[1]) | int(b[2])<<8 | int(b[3])<<16 | int(b[4])<<24
	if n < 0 || n > BodyMax {
		return 0, 0, ErrMalformed
	}
	return Kind(b[0]), n, nil
}

// Wrap puts the header before a body.
func Wrap(k Kind, body []byte) []byte {
	n := len(body)
	b := make([]byte, 0, HeaderSize+n)
	b = append(b, byte(k), byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	return append(b, body...)
}

// Time makes the body of a lease frame.
func Time(ns int64) []byte {
	var w writer
	w.num(ns)
	return w
}

// TimeOf reads the body of a lease frame.
func TimeOf(b []byte) (int64, error) {
	r := reader{b: string(b)}
	ns := r.num()
	return ns, r.end()
}

type writer []byte

func (w *writer) num(n int64) {
	for i := 0; i < 64; i += 8 {
		*w = append(*w, byte(n>>i))
	}
}

func (w *writer) flag(b bool) {
	if b {
		*w = append(*w, 1)
	} else {
		*w = append(*w, 0)
	}
}

func (w *writer) str(s string) {
	w.num(int64(len(s)))
	*w = append(*w, s...)
}

func (w *writer) list(l []string) {
	w.num(int64(len(l)))
	for _, s := range l {
		w.str(s)
	}
}

// reader takes values from a copy of the body, which all texts share.
type reader struct {
	b   string
	bad bool
}

func (r *reader) take(n int64) string {
	if r.bad || n < 0 || n > int64(len(r.b)) {
		r.bad, r.b = true, ""
		return ""
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) num() int64 {
	var n int64
	for i, b := 0, r.take(8); i < len(b); i++ {
		n |= int64(b[i]) << (8 * i)
	}
	return n
}

func (r *reader) flag() bool {
	b := r.take(1)
	return len(b) == 1 && b[0] == 1
}

func (r *reader) str() string { return r.take(r.num()) }

// count reads a length and refuses one that the bytes left cannot hold.
func (r *reader) count() int {
	n := r.num()
	if n < 0 || n > int64(len(r.b)) {
		r.bad, r.b = true, ""
		return 0
	}
	return int(n)
}

func (r *reader) list() []string {
	n := r.count()
	if n == 0 {
		return nil
	}
	out := make([]string, 0, min(n, 1024))
	for range n {
		if r.bad {
			return nil
		}
		out = append(out, r.str())
	}
	return out
}

func (r *reader) end() error {
	if r.bad || len(r.b) != 0 {
		return ErrMalformed
	}
	return nil
}
