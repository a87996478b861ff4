package member

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// gossipPort is where servers gossip unless they are told otherwise.
const gossipPort = "4648"

// withPort completes addresses that have no port.
func withPort(addresses []string) []string {
	var out []string
	for _, a := range addresses {
		if _, _, err := net.SplitHostPort(a); err != nil {
			a = net.JoinHostPort(strings.Trim(a, "[]"), gossipPort)
		}
		out = append(out, a)
	}
	return out
}

// join finds the configured servers. It fails only when the tries are bounded and used up.
func (m *Members) join(ctx context.Context) error {
	if len(m.conf.Join.Start) > 0 {
		if _, err := m.Join(m.conf.Join.Start); err != nil {
			return fault.New(fault.Unavailable, "start_join: %w", err)
		}
	}
	if len(m.conf.Join.Retry) == 0 {
		return nil
	}
	interval := m.conf.Join.Interval
	if interval <= 0 {
		interval = DefaultInterval
	}
	for try, pause := 1, time.Second; ; try++ {
		n, err := m.Join(m.conf.Join.Retry)
		switch {
		case n > 0 && len(m.listed()) > 1:
			m.log.Info("joined other servers", "answered", n, "addresses", m.conf.Join.Retry)
			return nil
		case n > 0:
			// Only this server itself has answered so far.
			try = 0
		case m.conf.Join.Max > 0 && try >= m.conf.Join.Max:
			return fault.New(fault.Unavailable, "retry_join: no server answered in %d tries: %w", try, err)
		default:
			m.log.Warn("no server to join has answered; trying again", "addresses", m.conf.Join.Retry, "try", try, "retry_in", min(pause, interval), "error", err)
		}
		if !await(ctx, nil, min(pause, interval)) {
			return nil
		}
		// Servers that are started together find each other within seconds, whatever the interval.
		pause = min(2*pause, interval)
		if len(m.listed()) > 1 {
			return nil
		}
	}
}
