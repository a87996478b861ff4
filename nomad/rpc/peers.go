package rpc

import (
	"sync"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// peers are the connections to other servers, made when first needed.
type peers struct {
	dialer wire.Dialer
	mu     sync.Mutex
	conns  map[string]*wire.Conn
	closed bool
}

func (p *peers) to(address string) (*wire.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fault.New(fault.Unavailable, "the server is stopping")
	}
	if c := p.conns[address]; c != nil {
		return c, nil
	}
	c, err := wire.Connect(address, p.dialer)
	if err != nil {
		return nil, err
	}
	if p.conns == nil {
		p.conns = map[string]*wire.Conn{}
	}
	p.conns[address] = c
	return c, nil
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
