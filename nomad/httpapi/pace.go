package httpapi

import (
	"cmp"
	"io"
	"net/http"
	"time"
)

const (
	// stallMax is how long a client may pause while it sends a body or receives a reply.
	stallMax = 30 * time.Second
	// minRate is how many bytes a second a body or a reply must advance after that.
	minRate = 16 << 10
)

// paced limits how long a client may take to send its body and to receive the reply: it may pause for stall (0 means
// stallMax) and must then keep minRate. The time that a handler waits for something else does not count.
func paced(next http.Handler, stall time.Duration) http.Handler {
	stall = cmp.Or(stall, stallMax)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := pace{http.NewResponseController(w), stall}
		_ = p.conn.SetWriteDeadline(time.Time{}) // of the previous request on the connection
		if r.Body != nil && r.Body != http.NoBody {
			_ = p.conn.SetReadDeadline(p.until(time.Now(), 0)) // the server reads what the handler leaves
			r.Body = &pacedBody{ReadCloser: r.Body, pace: p}
		}
		next.ServeHTTP(&pacedWriter{w, p}, r)
		p.writes(0) // the server sends what is buffered
	})
}

type pace struct {
	conn  *http.ResponseController
	stall time.Duration
}

// until is the time by which a transfer must have advanced beyond n bytes.
func (p pace) until(start time.Time, n int64) time.Time {
	return start.Add(p.stall + time.Duration(n)*time.Second/minRate)
}

// writes sets the deadline of a write. The server may first wait for the rest of a body, for as long again.
func (p pace) writes(n int) {
	_ = p.conn.SetWriteDeadline(p.until(time.Now().Add(p.stall), int64(n)))
}

type pacedBody struct {
	io.ReadCloser
	pace
	start time.Time // of the first read: a body may wait for its turn before
	n     int64
}

// Read implements [io.Reader].
func (b *pacedBody) Read(into []byte) (int, error) {
	if b.start.IsZero() {
		b.start = time.Now()
	}
	_ = b.conn.SetReadDeadline(b.until(b.start, b.n))
	n, err := b.ReadCloser.Read(into)
	b.n += int64(n)
	if err == io.EOF {
		_ = b.conn.SetReadDeadline(time.Time{}) // the server now only checks that the client is still connected
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

// Unwrap implements the interface of [http.ResponseController].
func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
