package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// slowBody is a body of which only the beginning comes before it is let go.
type slowBody struct {
	begun *atomic.Int32
	let   chan struct{}
	rest  io.Reader
	once  bool
}

func (b *slowBody) Read(p []byte) (int, error) {
	if !b.once {
		b.once = true
		b.begun.Add(1)
		<-b.let
	}
	return b.rest.Read(p)
}

// A client that sends many large bodies at once has few of them in the server's memory, and is in no other one's way.
func TestFewLargeBodiesOfAClientAreReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler(world())
		let := make(chan struct{})
		var begun, others atomic.Int32
		ended := make(chan int, 100)
		put := func(client string, begun *atomic.Int32, size int64) {
			r := httptest.NewRequest(http.MethodPut, "/v1/jobs", &slowBody{begun: begun, let: let, rest: strings.NewReader("{}")})
			r.RemoteAddr, r.ContentLength = client+":1", size
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			ended <- w.Code
		}
		for range 20 {
			go put("10.0.0.1", &begun, 1<<20)
		}
		synctest.Wait()
		for _, size := range []int64{1 << 20, -1} {
			go put("10.0.0.2", &others, size)
		}
		go put("10.0.0.1", &others, 100)
		synctest.Wait()
		if begun.Load() != 4 || others.Load() != 3 {
			t.Errorf("%d of 20 bodies are read at once, and %d of 3 others", begun.Load(), others.Load())
		}
		close(let)
		for range 23 {
			if code := <-ended; code != http.StatusBadRequest {
				t.Errorf("code %d", code)
			}
		}
		if begun.Load() != 20 {
			t.Errorf("%d of 20 bodies were read in the end", begun.Load())
		}
	})
}

// Clients of many addresses have few bodies in memory together, and requests without a body pass.
func TestFewBodiesOfAllClientsAreReadAtOnce(t *testing.T) {
	for size, most := range map[int64]int{-1: 32, 1 << 20: 32, 100: 4096} {
		synctest.Test(t, func(t *testing.T) {
			h := handler(world())
			let := make(chan struct{})
			var begun atomic.Int32
			ended := make(chan int, 2*most)
			for i := range 2 * most {
				go func() {
					r := httptest.NewRequest(http.MethodPut, "/v1/jobs", &slowBody{begun: &begun, let: let, rest: strings.NewReader("{}")})
					r.RemoteAddr, r.ContentLength = fmt.Sprintf("10.0.1.%d:1", i%40), size
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					ended <- w.Code
				}()
			}
			synctest.Wait()
			if n := int(begun.Load()); n != most {
				t.Errorf("%d of %d bodies are read at once", n, 2*most)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/status/leader", nil))
			if w.Code != http.StatusOK {
				t.Errorf("the leader: %d", w.Code)
			}
			time.Sleep(3 * time.Minute)
			close(let)
			codes := map[int]int{}
			for range 2 * most {
				codes[<-ended]++
			}
			if codes[http.StatusTooManyRequests] != most {
				t.Errorf("codes %v; want %d that waited too long", codes, most)
			}
		})
	}
}
