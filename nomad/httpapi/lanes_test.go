package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
