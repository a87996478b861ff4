package login

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
)

// waitMax bounds how long a login waits for the browser.
const waitMax = 5 * time.Minute

// callbackPath is where the identity provider sends the browser; auth methods permit it by its whole address.
const callbackPath = "/oidc/callback"

// oidc logs in with a browser.
func oidc(ctx context.Context, s *session.Session, method string) (*api.ACLToken, error) {
	host, port, err := net.SplitHostPort(s.String("oidc-callback-addr"))
	if err != nil {
		return nil, fault.New(fault.Invalid, "-oidc-callback-addr: %w", err)
	}
	host = cmp.Or(host, "localhost")
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fault.New(fault.Unavailable, "wait for the browser: %w; use another -oidc-callback-addr that the auth method permits", err)
	}
	if at, ok := listener.Addr().(*net.TCPAddr); ok { // port 0 takes any
		port = strconv.Itoa(at.Port)
	}
	redirect, nonce := "http://"+net.JoinHostPort(host, port)+callbackPath, rand.Text()
	begun, err := s.ACLOIDCAuthURL(ctx, &api.ACLOIDCAuthURLRequest{AuthMethodName: method, RedirectURI: redirect, ClientNonce: nonce})
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	page, err := url.Parse(begun.AuthURL)
	state := ""
	if err == nil {
		state = page.Query().Get("state")
	}
	if state == "" || page.Scheme != "https" && page.Scheme != "http" {
		return nil, errors.Join(fault.New(fault.Internal, "the server sent no login page with a state: %q", begun.AuthURL), listener.Close())
	}
	back := make(chan url.Values, 1)
	server := &http.Server{Handler: callback(state, back), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	s.Warnf("Complete the login via your OIDC provider. Open this page:\n\n    %s\n", page)
	if s.Terminal() {
		_ = session.Browse(ctx, page.String()) // the address is printed
	}
	result, err := wait(ctx, back)
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = server.Shutdown(shutdown) // lets the browser have its page
	if err != nil {
		return nil, err
	}
	if reason := result.Get("error"); reason != "" {
		return nil, fault.New(fault.Denied, "the identity provider refused the login: %s %s", reason, result.Get("error_description"))
	}
	return s.ACLOIDCCompleteAuth(ctx, &api.ACLOIDCCompleteAuthRequest{
		AuthMethodName: method, ClientNonce: nonce, State: state, Code: result.Get("code"), Iss: result.Get("iss"), RedirectURI: redirect,
	})
}

// callback passes on the parameters of the first request with the state of this login.
func callback(state string, back chan<- url.Values) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+callbackPath, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 {
			http.Error(w, "This is not the login that nomad waits for: its state differs.", http.StatusBadRequest)
			return
		}
		select {
		case back <- q:
		default: // a second request of the same login
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("The identity provider has answered. Close this page and return to the terminal.\n"))
	})
	return mux
}

func wait(ctx context.Context, back <-chan url.Values) (url.Values, error) {
	timer := time.NewTimer(waitMax)
	defer timer.Stop()
	select {
	case q := <-back:
		return q, nil
	case <-timer.C:
		return nil, fault.New(fault.Timeout, "the browser did not come back within %s: run the command again", waitMax)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
