package httpapi_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/internal/inspect"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
)

// A client that follows the log of an agent and stops reading holds up neither the agent nor another reader, in bounded
// memory. TestAnAnswerThatNobodyTakesEndsItsRequest shows that it is disconnected.
func TestLogContinuesWhileAClientDoesNotRead(t *testing.T) {
	log := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Error, Output: io.Discard})
	a := inspect.New(inspect.Config{ID: "a1", Log: log})
	address := siteOf(t, httpapi.Config{Servers: world(), Stall: stalls, Inspect: a}, httpapi.Limits{}, nil)
	silent := connect(t, address)
	fmt.Fprint(silent, "GET /v1/agent/monitor?plain=true HTTP/1.1\r\nHost: x\r\n\r\n")
	head := make([]byte, 15)
	if _, err := io.ReadFull(silent, head); err != nil || string(head) != "HTTP/1.1 200 OK" {
		t.Fatalf("%q, %v", head, err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	line := strings.Repeat("x", 8<<10)
	for range 16 << 10 { // 128 MiB
		log.Info(line)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if more := int64(after.HeapAlloc) - int64(before.HeapAlloc); more > 16<<20 {
		t.Errorf("the agent keeps %d bytes for a client that does not read", more)
	}

	response, err := http.Get("http://" + address + "/v1/agent/monitor?plain=true")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	log.Info("for another reader") // the header came without a line
	text, part := []byte(nil), make([]byte, 4<<10)
	for !bytes.Contains(text, []byte("for another reader")) {
		n, err := response.Body.Read(part)
		if text = append(text, part[:n]...); err != nil {
			t.Fatalf("another reader: %q, %v", text, err)
		}
	}
}
