package member

import (
	"bufio"
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/internal/retry"
)

// remembered reads the addresses of the last known members, by name, from the file of the gossip library. A server that
// left has none, unless it is configured to rejoin.
func remembered(path string, rejoinAfterLeave bool) map[string]string {
	f, err := os.Open(path)
	if err != nil {
		return nil // the library reads it too and logs the error
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

// rejoin contacts the remembered members that did not reply at the start, for forgetAfter: the library contacts each
// once, until one replies. So servers that are restarted together find each other in any order.
func (m *Members) rejoin(ctx context.Context) {
	missing := m.known
	delete(missing, m.ownName())
	ctx, cancel := context.WithTimeout(ctx, forgetAfter)
	defer cancel()
	for pace := retry.Between(time.Second, reconnectInterval); len(missing) > 0 && pace.Wait(ctx); {
		for _, x := range m.listed() {
			delete(missing, x.Name)
		}
		for _, name := range slices.Sorted(maps.Keys(missing)) {
			if _, err := m.Join([]string{missing[name]}); err != nil {
				m.log.Debug("a server that was known before the restart does not reply", "server", name, "address", missing[name], "error", err)
			}
		}
	}
}
