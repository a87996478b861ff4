package httpapi

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// authenticated serves only requests with a token or a workload identity that is valid. The body of a refusal is the text of
// its status.
func (c Config) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := http.StatusUnauthorized
		if token := endpoint.Token(r); token != "" {
			ctx, cancel := context.WithTimeout(c.CPU.For(r.Context(), r.RemoteAddr), extraTimeout)
			defer cancel()
			_, err := wire.ACLCheck.Call(ctx, c.Servers, &api.ACLCheckRequest{QueryOptions: api.QueryOptions{AuthToken: token}})
			if err == nil {
				next.ServeHTTP(w, r)
				return
			}
			code = fault.Of(err).HTTPStatus()
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, http.StatusText(code))
	})
}

// TaskListener gives the connections of the API socket of a task addresses: unix sockets have none, and limits and the audit
// log go by them.
func TaskListener(l net.Listener, allocID, task string) net.Listener {
	return &taskListener{Listener: l, host: allocID + "/" + url.QueryEscape(task)}
}

type taskListener struct {
	net.Listener
	host string
	n    atomic.Uint64
}

// Accept implements [net.Listener].
func (l *taskListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return taskConn{conn, taskAddr(net.JoinHostPort(l.host, strconv.FormatUint(l.n.Add(1), 10)))}, nil
}

type taskConn struct {
	net.Conn
	remote taskAddr
}

// RemoteAddr implements [net.Conn].
func (c taskConn) RemoteAddr() net.Addr { return c.remote }

type taskAddr string

// Network implements [net.Addr].
func (taskAddr) Network() string { return "unix" }

// String implements [net.Addr].
func (a taskAddr) String() string { return string(a) }
