package member

import (
	"bufio"
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// remembered reads from the file of the gossip library whom this server gossiped with when it ended: the addresses
// of members by name. A server that left remembers nobody, unless it is to come back.
func remembered(path string, rejoinAfterLeave bool) map[string]string {
	f, err := os.Open(path)
	if err != nil {
		return nil // the library, which reads it too, says why
	}
	defer f.Close()
	known := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		what, rest, _ := strings.Cut(lines.Text(), ": ")
		at := strings.LastIndexByte(rest, ' ')
		switch {
		case what == "alive" && at > 0:
			known[rest[:at]] = rest[at+1:]
		case what == "not-alive":
			delete(known, rest)
		case what == "leave" && !rejoinAfterLeave:
			clear(known)
		}
	}
	return known
}

// rejoin asks those again that this server remembers and that have not answered when it began: the library asks each
// once, until one has answered. So servers that are restarted together find each other in any order.
func (m *Members) rejoin(ctx context.Context) {
	missing := m.known
	delete(missing, m.ownName())
	end := time.Now().Add(forgetAfter)
	for pause := time.Second; len(missing) > 0 && time.Now().Before(end); pause = min(2*pause, reconnectInterval) {
		if !await(ctx, nil, pause) {
			return
		}
		for _, x := range m.listed() {
			delete(missing, x.Name)
		}
		for _, name := range slices.Sorted(maps.Keys(missing)) {
			if _, err := m.Join([]string{missing[name]}); err != nil {
				m.log.Debug("a server that was known before the restart does not answer", "server", name, "address", missing[name], "error", err)
			}
		}
	}
}
