package transport

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// helloBytes limits the frames of the handshake.
const helloBytes = 4 << 10

// Hello is the first frame of a node on a reversed connection.
type Hello struct {
	NodeID string `json:"node"`
	Secret string `json:"secret"`
	// Instance identifies the agent's process: two processes with one identity differ in it.
	Instance string `json:"instance,omitempty"`
}

// welcome is the server's reply to a hello; an empty error accepts it.
type welcome struct {
	Class fault.Class `json:"class,omitempty"`
	Error string      `json:"error,omitempty"`
}

func greet(conn net.Conn, hello Hello) error {
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	if err := writeFrame(conn, hello); err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	var answer welcome
	if err := readFrame(conn, &answer); err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	if answer.Error != "" {
		return fault.New(answer.Class, "%s", answer.Error)
	}
	return conn.SetDeadline(time.Time{})
}

func welcomed(ctx context.Context, conn net.Conn, check func(context.Context, Hello) error) (Hello, error) {
	var hello Hello
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return hello, err
	}
	if err := readFrame(conn, &hello); err != nil {
		return hello, fmt.Errorf("read hello: %w", err)
	}
	if err := check(ctx, hello); err != nil {
		return hello, errors.Join(err, writeFrame(conn, welcome{Class: fault.Of(err), Error: err.Error()}))
	}
	if err := writeFrame(conn, welcome{}); err != nil {
		return hello, fmt.Errorf("reply to hello: %w", err)
	}
	return hello, conn.SetDeadline(time.Time{})
}

func writeFrame(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(body) > helloBytes {
		return fault.New(fault.TooLarge, "greeting of %d bytes", len(body))
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

func readFrame(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > helloBytes {
		return fault.New(fault.TooLarge, "greeting of %d bytes", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	return json.Unmarshal(body, v)
}
