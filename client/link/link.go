package link

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/internal/retry"
)

// Pauses between tries, and the wait for a connection.
const (
	pauseMin = 50 * time.Millisecond
	pauseMax = time.Second
	// readyTimeout bounds the wait for a connection of a call that is not repeated.
	readyTimeout = 2 * time.Second
	// pauseTwin lies between tries while another agent lives with this node's identity.
	pauseTwin = 10 * time.Second
)

// Config is what the link needs.
type Config struct {
	// Servers are the RPC addresses to begin with.
	Servers []string
	Dialer  transport.Dialer
	// Handlers serve the servers' calls; more may be added before Run.
	Handlers []wire.Handler
	Log      hclog.Logger
}

// Link reaches the servers. It implements [wire.Caller].
type Link struct {
	dialer     transport.Dialer
	log        hclog.Logger
	configured []string

	mu         sync.Mutex
	handlers   []wire.Handler
	told       []string
	remembered []string
	hello      transport.Hello
	// use is the server that is asked; empty when one is to be chosen.
	use   string
	conns map[string]*transport.Conn
	// busy counts the calls that wait for each server.
	busy map[string]int
	// pace is the time between two looks at the servers; see watch.go.
	pace    time.Duration
	changed chan struct{}
	closed  bool
}

// New makes a link. Calls go out at once; servers can call down while Run runs.
func New(c Config) *Link {
	c.Dialer.Instance = fmt.Sprintf("%016x", rand.Uint64())
	return &Link{
		dialer: c.Dialer, log: c.Log, configured: slices.Clone(c.Servers), handlers: slices.Clone(c.Handlers),
		conns: map[string]*transport.Conn{}, busy: map[string]int{}, changed: make(chan struct{}, 1),
		pace: watchMin,
	}
}

// Handle adds methods that the servers may call; it must be called before Run.
func (l *Link) Handle(handlers ...wire.Handler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handlers = append(l.handlers, handlers...)
}

// SetNode sets the id and the newest credential with which the node offers its connections.
func (l *Link) SetNode(id, credential string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hello = transport.Hello{NodeID: id, Secret: credential, Instance: l.dialer.Instance}
	l.wake()
}

// SetServers takes over the addresses that the servers report; an empty list changes nothing.
func (l *Link) SetServers(addresses []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(addresses) == 0 || slices.Equal(addresses, l.told) {
		return
	}
	l.told = slices.Clone(addresses)
	l.prune()
	l.wake()
}

// Remember takes addresses that servers reported to an earlier agent process: they are asked when the others fail.
func (l *Link) Remember(addresses []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remembered = slices.Clone(addresses)
	l.wake()
}

// prune ends the connections to servers that are no longer known; the caller holds the lock.
func (l *Link) prune() {
	all := l.reachable()
	for address, c := range l.conns {
		if !slices.Contains(all, address) {
			delete(l.conns, address)
			_ = c.Close()
		}
	}
}

// Servers lists the addresses in use.
func (l *Link) Servers() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.current())
}

func (l *Link) current() []string {
	if len(l.told) > 0 {
		return l.told
	}
	return l.reachable()
}

func (l *Link) wake() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Invoke calls a method at a server that can serve it. A call of [wire.Once] that a server may have begun is not sent
// to another one. A call with a credential that the node has replaced since then ends with an error of class
// fault.Unavailable: no server may accept it any more, and the caller repeats it with the new one.
func (l *Link) Invoke(ctx context.Context, method string, req, resp any) error {
	pauses, quick := retry.Between(pauseMin, pauseMax), retry.Between(pauseMin, pauseMin)
	for try := 0; ; try++ {
		conn, address, err := l.conn()
		begun := false
		if err == nil {
			begun, err = invoke(ctx, conn, method, req, resp)
			l.free(address)
		}
		if err == nil || !passing(err) || begun && wire.IsOnce(ctx) && !errors.Is(err, fault.NotLeader) {
			return err
		}
		if l.replaced(method, req) {
			return fault.New(fault.Unavailable, "the credential of the node was replaced during the call: %v", err)
		}
		l.turn(address)
		next := quick // for the first pass over all servers
		if try >= len(l.Servers()) {
			next = pauses
		}
		if !next.Wait(ctx) {
			return fmt.Errorf("call %s: %w; last error: %w", method, ctx.Err(), err)
		}
	}
}

// invoke calls a method at one server; begun reports that the server may have received the call.
func invoke(ctx context.Context, conn *transport.Conn, method string, req, resp any) (begun bool, err error) {
	if wire.IsOnce(ctx) {
		ready, cancel := context.WithTimeout(ctx, readyTimeout)
		defer cancel()
		if err := conn.Ready(ready); err != nil {
			return false, err
		}
	}
	return true, conn.Invoke(ctx, method, req, resp)
}

// replaced reports whether the node has a newer credential than a request has. Registrations have the secret of the node.
func (l *Link) replaced(method string, req any) bool {
	r, ok := req.(api.ByNode)
	if !ok || method == wire.NodeRegister.Name {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, sent := r.NodeCredentials()
	return l.hello.Secret != "" && sent != l.hello.Secret
}

// passing reports whether another try may end better.
func passing(err error) bool {
	return errors.Is(err, fault.Unavailable) || errors.Is(err, fault.NotLeader)
}

// conn returns the connection to the server whose turn it is, and counts a call that waits for it.
func (l *Link) conn() (*transport.Conn, string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, "", fault.New(fault.Internal, "the link to the servers is closed")
	}
	address := l.chosen()
	if address == "" {
		return nil, "", fault.New(fault.Unavailable, "no servers are known")
	}
	c, err := l.to(address)
	if err == nil {
		l.busy[address]++
	}
	return c, address, err
}

func (l *Link) free(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy[address]--; l.busy[address] <= 0 {
		delete(l.busy, address)
	}
}

// chosen is the server that is asked. The first is any, so that nodes spread; the caller holds the lock.
func (l *Link) chosen() string {
	if all := l.reachable(); !slices.Contains(all, l.use) {
		first := l.told
		if len(first) == 0 {
			first = l.configured
		}
		if len(first) == 0 {
			first = all
		}
		l.use = ""
		if len(first) > 0 {
			l.use = first[rand.N(len(first))]
		}
	}
	return l.use
}

// to returns the connection to an address; the caller holds the lock.
func (l *Link) to(address string) (*transport.Conn, error) {
	if c := l.conns[address]; c != nil {
		return c, nil
	}
	if l.closed {
		return nil, fault.New(fault.Internal, "the link to the servers is closed")
	}
	c, err := transport.Connect(address, l.dialer)
	if err != nil {
		return nil, err
	}
	l.conns[address] = c
	return c, nil
}

// Each calls fn for every known server, and for those at the addresses, at once, and returns when all are done.
// For servers that cannot be reached fn learns of it from its first call.
func (l *Link) Each(ctx context.Context, also []string, fn func(context.Context, wire.Caller)) {
	l.mu.Lock()
	all := slices.Concat(l.current(), also)
	slices.Sort(all)
	all = slices.Compact(all)
	var conns []*transport.Conn
	for _, address := range all {
		if c, err := l.to(address); err == nil {
			conns = append(conns, c)
		}
	}
	l.mu.Unlock()
	var calls sync.WaitGroup
	for _, c := range conns {
		calls.Go(func() { fn(ctx, c) })
	}
	calls.Wait()
}

// reachable lists the reported servers first, then the configured ones, then those of an earlier agent process.
func (l *Link) reachable() []string {
	all := slices.Clone(l.told)
	for _, a := range slices.Concat(l.configured, l.remembered) {
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// turn selects the next server, unless another call has already done so.
func (l *Link) turn(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if all := l.reachable(); len(all) > 0 && l.use == address {
		l.use = all[(slices.Index(all, address)+1)%len(all)]
	}
}

// Close ends all calls for good.
func (l *Link) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	var errs []error
	for _, c := range l.conns {
		errs = append(errs, c.Close())
	}
	clear(l.conns)
	return errors.Join(errs...)
}
