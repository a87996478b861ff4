package terminal

import "io"

// escapeReader is the input of a terminal. The escape character and a dot at the start of a line end the connection; the
// escape character twice is sent once.
type escapeReader struct {
	from io.Reader
	char byte
	// end is called when the user ends the connection.
	end func()
	// lineStart is set at the start of a line, held when an escape character was read there and not passed on.
	lineStart, held bool
}

func newEscapeReader(from io.Reader, char byte, end func()) *escapeReader {
	return &escapeReader{from: from, char: char, end: end, lineStart: true}
}

// Read implements [io.Reader]. It passes on what cannot belong to an escape sequence.
func (r *escapeReader) Read(into []byte) (int, error) {
	if len(into) < 2 {
		return 0, io.ErrShortBuffer
	}
	for {
		// A held character may come back with the byte behind it, so at most half of the room is read.
		buf := make([]byte, len(into)/2)
		n, err := r.from.Read(buf)
		out := into[:0]
		for _, b := range buf[:n] {
			switch {
			case r.held && b == '.':
				r.end()
				return len(out), io.EOF
			case r.held:
				r.held = false
				if out = append(out, r.char); b == r.char {
					r.lineStart = false
					continue
				}
			case r.lineStart && b == r.char:
				r.held = true
				continue
			}
			out = append(out, b)
			r.lineStart = b == '\r' || b == '\n'
		}
		if err != nil && r.held {
			r.held = false
			out = append(out, r.char)
		}
		if len(out) > 0 || err != nil {
			return len(out), err
		}
	}
}
