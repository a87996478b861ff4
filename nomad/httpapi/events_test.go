package httpapi_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/events"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
	"github.com/open-nomad/open-nomad/nomad/state"
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

// narrow gives connections small buffers, so that a client that does not read is noticed early.
type narrow struct{ net.Listener }

// Accept implements [net.Listener].
func (l narrow) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		err = conn.(*net.TCPConn).SetWriteBuffer(8 << 10)
	}
	return conn, err
}

// TestSubscribersThatNeverReadCostLittle: 1,000 subscribers do not read while 9,000 events of 4 KB are written. The heap has the
// events of the buffer, and not those of each subscriber. Once they read, each gets an error and its connection is closed.
func TestSubscribersThatNeverReadCostLittle(t *testing.T) {
	t.Parallel()
	const subscribers, written, most = 1000, 9000, 400 << 20
	s := state.New()
	buffer := events.NewBuffer(s, 100)
	service := events.New(events.Config{State: s, Buffer: buffer, ID: "s1"})
	server := httptest.NewUnstartedServer(httpapi.New(httpapi.Config{Servers: wire.Direct(service.Handlers()...), Region: "global"}))
	server.Listener = narrow{server.Listener}
	server.Start()
	defer server.Close()
	var conns [subscribers]*bufio.Reader
	for i := range conns {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		fmt.Fprintf(conn, "GET /v1/event/stream HTTP/1.1\r\nHost: x\r\n\r\n")
		conns[i] = bufio.NewReader(conn)
		for line := ""; line != "{}\n"; { // it has subscribed
			if line, err = conns[i].ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range written {
		index := uint64(10 + i)
		tx := s.Write(index, time.Now())
		tx.PutEval(&api.Evaluation{ID: fmt.Sprintf("%08d-3c1f-43ae-a4d5-2a1f2d7ab1d2", i%100), Namespace: "default", JobID: "web", Status: "complete", StatusDescription: strings.Repeat("x", 4000)})
		buffer.Applied(fsm.KindEvalUpdate, index, tx.Commit())
		if i < 100 {
			time.Sleep(5 * time.Millisecond) // they begin to receive
		}
	}
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	t.Logf("%d MB of heap", mem.HeapAlloc>>20)
	if mem.HeapAlloc > most {
		t.Errorf("%d MB of heap, want at most %d", mem.HeapAlloc>>20, most>>20)
	}
	var readers sync.WaitGroup
	for _, r := range conns {
		readers.Go(func() {
			last, end := "", error(nil)
			for end == nil {
				var line string
				if line, end = r.ReadString('\n'); line != "" {
					last = line
				}
			}
			var got api.Events
			if err := json.Unmarshal([]byte(last), &got); err != nil || !strings.Contains(got.Error, "too slow") {
				t.Errorf("the last line is %.100q: %v, %v", last, err, end)
			}
		})
	}
	readers.Wait()
}
