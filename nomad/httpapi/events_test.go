package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

func TestTheEventStreamIsLinesOfJSON(t *testing.T) {
	t.Parallel()
	c := newCluster()
	calls := 0
	on(c, wire.EventRead, func(r *api.EventsRequest) (*api.EventsResponse, error) {
		calls++
		out := &api.EventsResponse{Cursor: api.EventCursor{Server: "s", Next: uint64(calls)}}
		switch {
		case calls > 1 && r.Cursor.Next != uint64(calls-1):
			t.Errorf("call %d has the cursor %+v", calls, r.Cursor)
		case calls == 2:
			out.Data = [][]byte{[]byte(`{"Index":7,`), []byte(`"Events":[]}` + "\n"), []byte(`"` + strings.Repeat("x", 100_000) + "\"\n")}
		case calls == 4:
			return nil, fault.New(fault.Conflict, "too slow")
		}
		return out, nil
	})
	w := send(handler(c), "GET", "/v1/event/stream?topic=Job&topic=Node:n&index=5&namespace=*", "", "X-Nomad-Token", "secret")
	want := "{}\n" + `{"Index":7,"Events":[]}` + "\n" + `"` + strings.Repeat("x", 100_000) + "\"\n{}\n" + `{"Error":"too slow"}` + "\n"
	if w.Code != http.StatusOK || w.Body.String() != want || !w.Flushed || w.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("%d %v: %.300s", w.Code, w.Header(), w.Body)
	}
	first := c.asked[wire.EventRead.Name][0].(*api.EventsRequest)
	if len(first.Topics) != 2 || first.MinIndex != 5 || first.Namespace != "*" || first.AuthToken != "secret" {
		t.Errorf("asked %+v", first)
	}
}

// TestARefusedSubscriberGetsTheCode: the status is sent after the servers have admitted the subscriber.
func TestARefusedSubscriberGetsTheCode(t *testing.T) {
	t.Parallel()
	c := newCluster()
	on(c, wire.EventRead, func(*api.EventsRequest) (*api.EventsResponse, error) {
		return nil, fault.New(fault.Denied, "Permission denied")
	})
	expect(t, send(handler(c), "GET", "/v1/event/stream", ""), http.StatusForbidden, "Permission denied")
	expect(t, send(handler(c), "GET", "/v1/event/stream?index=x", ""), http.StatusBadRequest, "Invalid index")
	expect(t, send(handler(c), "PUT", "/v1/event/stream", ""), http.StatusMethodNotAllowed, "Invalid method")
}
