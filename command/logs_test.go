package command_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func TestLogsShowTheLastLines(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&text, "line %d %s\n", i, strings.Repeat("x", 200))
	}
	text.WriteString(strings.Repeat("y", 100_000) + "\nthe end")
	log := text.String()
	lines := strings.SplitAfter(log, "\n")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		alloc := api.Allocation{ID: "x", TaskGroup: "g", Job: &api.Job{TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{{Name: "t"}}}}}}
		switch r.URL.Path {
		case "/v1/allocations":
			_ = json.NewEncoder(w).Encode([]*api.AllocStub{{ID: "x"}})
		case "/v1/allocation/x":
			_ = json.NewEncoder(w).Encode(alloc)
		case "/v1/client/fs/logs/x":
			offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
			if r.URL.Query().Get("origin") == api.OriginEnd {
				offset = max(0, len(log)-offset)
			}
			_, _ = io.WriteString(w, log[offset:])
		}
	}))
	t.Cleanup(server.Close)
	for n, want := range map[int]string{
		0: "", 1: lines[30_001], 2: strings.Join(lines[30_000:], ""), 3: strings.Join(lines[29_999:], ""),
		20_000: strings.Join(lines[10_002:], ""), 30_002: log, 1_000_000: log,
	} {
		for _, more := range [][]string{nil, {"-f", "-stdout"}} {
			args := append([]string{"alloc", "logs", "-n", strconv.Itoa(n), "-address", server.URL}, more...)
			if o := run(t, nil, "", append(args, "x")...); o.code != 0 || o.out != want {
				t.Errorf("-n %d %v: exit code %d, %d bytes that end with %q, want %d\n%s", n, more, o.code, len(o.out), o.out[max(0, len(o.out)-20):], len(want), o.err)
			}
		}
	}
}
