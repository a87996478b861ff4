package rpc

import (
	"sync"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire/transport"
)

// peers are the connections to other servers, made when first needed.
type peers struct {
	dialer transport.Dialer
	mu     sync.Mutex
	conns  map[place]*transport.Conn
	closed bool
}

// place is where a server is; an empty region is our own.
type place struct{ region, address string }

func (p *peers) to(region, address string) (*transport.Conn, error) {
	at := place{region, address}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fault.New(fault.Unavailable, "the server is stopping")
	}
	if c := p.conns[at]; c != nil {
		return c, nil
	}
	dialer := p.dialer
	if region != "" {
		dialer.Region = region
	}
	c, err := transport.Connect(address, dialer)
	if err != nil {
		return nil, err
	}
	if p.conns == nil {
		p.conns = map[place]*transport.Conn{}
	}
	p.conns[at] = c
	return c, nil
}

// drop ends the connection to a server, and all calls on it.
func (p *peers) drop(region, address string) {
	at := place{region, address}
	p.mu.Lock()
	c := p.conns[at]
	delete(p.conns, at)
	p.mu.Unlock()
	if c != nil {
		_ = c.Close()
	}
}

func (p *peers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}
