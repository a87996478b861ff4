package admission

import (
	"cmp"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

const (
	// stallMax is how long a client may stand still, while it sends a body or takes an answer.
	stallMax = 30 * time.Second
	// paceLeast is how many bytes a second give it more time.
	paceLeast = 16 << 10
)

// ErrCut is said of a body that has to give way to others.
var ErrCut = fault.New(fault.Exhausted, "the request body came slowly while others waited for its place")

// Paced bounds how long a client may take to send its body and to take what it is sent: stall is how long it may stand
// still, 0 means half a minute. A handler that waits for something else is not bounded by it.
func Paced(next http.Handler, stall time.Duration) http.Handler {
	stall = cmp.Or(stall, stallMax)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := http.NewResponseController(w)
		p := pace{conn, stall}
		_ = conn.SetWriteDeadline(time.Time{}) // that of the request before it on the connection
		if r.Body != nil && r.Body != http.NoBody {
			b := &pacedBody{ReadCloser: r.Body, pace: p, since: time.Now()}
			_ = conn.SetReadDeadline(p.until(b.since, 0))
			r.Body = b
		}
		next.ServeHTTP(&pacedWriter{w, p}, r)
		p.writes(0) // what is buffered still has to go
	})
}

type pace struct {
	conn  *http.ResponseController
	stall time.Duration
}

// until is when so many bytes must have gone.
func (p pace) until(since time.Time, bytes int64) time.Time {
	return since.Add(p.stall + time.Duration(bytes)*time.Second/paceLeast)
}

// writes begins the time for a write. The server may wait for the rest of a body before it writes: that comes on top.
func (p pace) writes(bytes int) {
	_ = p.conn.SetWriteDeadline(p.until(time.Now().Add(p.stall), int64(bytes)))
}

type pacedBody struct {
	io.ReadCloser
	pace
	since time.Time
	got   int64
	mu    sync.Mutex
	ended bool
}

// begin begins the time for the whole body anew.
func (b *pacedBody) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.since = time.Now()
}

// end makes this and all later reads fail.
func (b *pacedBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	_ = b.conn.SetReadDeadline(time.Unix(1, 0))
}

// wait begins the time for a read.
func (b *pacedBody) wait() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return ErrCut
	}
	_ = b.conn.SetReadDeadline(b.until(b.since, b.got))
	return nil
}

// Read implements [io.Reader].
func (b *pacedBody) Read(into []byte) (int, error) {
	if err := b.wait(); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(into)
	if err != nil && err != io.EOF && b.wait() != nil {
		return n, ErrCut
	}
	b.got += int64(n)
	if err == io.EOF {
		_ = b.conn.SetReadDeadline(time.Time{}) // the server looks from here on whether the client is still there
	}
	return n, err
}

type pacedWriter struct {
	http.ResponseWriter
	pace
}

// Write implements [io.Writer].
func (w *pacedWriter) Write(b []byte) (int, error) {
	w.writes(len(b))
	return w.ResponseWriter.Write(b)
}

// Flush implements [http.Flusher].
func (w *pacedWriter) Flush() {
	w.writes(0)
	_ = w.conn.Flush()
}

// Unwrap lets a [http.ResponseController] reach the connection.
func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
