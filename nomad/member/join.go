package member

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/retry"
)

// gossipPort is the default port for gossip.
const gossipPort = "4648"

// withPort adds the default port to addresses without one.
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

// join joins the configured servers. It fails only after the configured number of tries.
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
	pace := retry.Between(min(time.Second, interval), interval)
	for try := 1; ; try++ {
		pause := min(pace.Next(), interval) // servers that start together find each other within seconds
		n, err := m.Join(m.conf.Join.Retry)
		switch {
		case n > 0 && len(m.listed()) > 1:
			m.log.Info("joined other servers", "replied", n, "addresses", m.conf.Join.Retry)
			return nil
		case n > 0:
			try = 0 // only this server itself has replied
		case m.conf.Join.Max > 0 && try >= m.conf.Join.Max:
			return fault.New(fault.Unavailable, "retry_join: no server replied in %d tries: %w", try, err)
		default:
			m.log.Warn("no server to join has replied", "addresses", m.conf.Join.Retry, "try", try, "retry_in", pause, "error", err)
		}
		if !retry.Sleep(ctx, pause) || len(m.listed()) > 1 {
			return nil
		}
	}
}
