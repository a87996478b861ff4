package command_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// TestLogsShowTheLastLines: "alloc logs" and "alloc fs" print the same end of a log and of a file.
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
		case "/v1/client/fs/stat/x":
			_ = json.NewEncoder(w).Encode(api.AllocFileInfo{Name: "f", Size: int64(len(log))})
		case "/v1/client/fs/stream/x":
			offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
			if r.URL.Query().Get("origin") == api.OriginEnd {
				offset = max(0, len(log)-offset)
			}
			for piece := range slices.Chunk([]byte(log[offset:]), 50_000) {
				_ = json.NewEncoder(w).Encode(api.StreamFrame{Data: piece})
				_ = json.NewEncoder(w).Encode(api.StreamFrame{})
			}
		}
	}))
	t.Cleanup(server.Close)
	for n, want := range map[int]string{
		0: "", 1: lines[30_001], 2: strings.Join(lines[30_000:], ""), 3: strings.Join(lines[29_999:], ""),
		20_000: strings.Join(lines[10_002:], ""), 30_002: log, 1_000_000: log,
	} {
		for _, verb := range [][]string{{"logs", "x"}, {"logs", "-f", "-stdout", "x"}, {"fs", "x", "f"}, {"fs", "-f", "x", "f"}} {
			args := append([]string{"alloc", verb[0], "-n", strconv.Itoa(n), "-address", server.URL}, verb[1:]...)
			if o := run(t, nil, "", args...); o.code != 0 || o.out != want {
				t.Errorf("-n %d %v: exit code %d, %d bytes that end with %q, want %d\n%s", n, verb, o.code, len(o.out), o.out[max(0, len(o.out)-20):], len(want), o.err)
			}
		}
	}
	for args, want := range map[string]string{
		"-c 7": "the end", "-tail": strings.Join(lines[29_992:], ""), "-f -c 3": "end", "-H -stat": strconv.Itoa(len(log)),
	} {
		if o := run(t, nil, "", append(append([]string{"alloc", "fs", "-address", server.URL}, strings.Fields(args)...), "x", "f")...); !strings.HasSuffix(o.out, want) && !strings.Contains(o.out, want+" ") || o.code != 0 {
			t.Errorf("fs %s: exit code %d, %d bytes, want %d: %s", args, o.code, len(o.out), len(want), o.err)
		}
	}
	run(t, nil, "", "alloc", "fs", "-address", server.URL, "-n", "1", "-c", "1", "x", "f").want(t, 1, "-n and -c cannot be combined")
}
