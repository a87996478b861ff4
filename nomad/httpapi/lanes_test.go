package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
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

// slowClient is a client that sends the beginning of a body and takes its time; its connection has deadlines.
type slowClient struct {
	*httptest.ResponseRecorder
	slowBody
	once sync.Once
	over chan struct{}
}

func (c *slowClient) SetReadDeadline(t time.Time) error {
	if !t.IsZero() && t.Before(time.Now()) {
		c.once.Do(func() { close(c.over) })
	}
	return nil
}

func (c *slowClient) Read(p []byte) (int, error) {
	c.begun.Add(1)
	select {
	case <-c.let:
		return c.rest.Read(p)
	case <-c.over:
		return 0, os.ErrDeadlineExceeded
	}
}

// Clients of many addresses that send bodies slowly have few of them in memory together, and give way to others.
func TestFewBodiesOfAllClientsAreReadAtOnceAndSlowOnesGiveWay(t *testing.T) {
	for _, size := range []int64{-1, 1 << 20, 100} {
		synctest.Test(t, func(t *testing.T) {
			h := handler(world())
			most, addresses, each := 32, 20, 4
			if size == 100 {
				most, each = 4096, 256
			}
			let := make(chan struct{})
			var begun, ended atomic.Int32
			codes := make(chan int, addresses*each)
			for i := range addresses * each {
				go func() {
					w := &slowClient{httptest.NewRecorder(), slowBody{&begun, let, strings.NewReader("{}"), false}, sync.Once{}, make(chan struct{})}
					r := httptest.NewRequest(http.MethodPut, "/v1/jobs", io.NopCloser(w))
					r.RemoteAddr, r.ContentLength = fmt.Sprintf("10.0.1.%d:1", i%addresses), size
					h.ServeHTTP(w, r)
					ended.Add(1)
					codes <- w.Code
				}()
			}
			synctest.Wait()
			if n := int(begun.Load()); n != most {
				t.Errorf("%d of %d bodies are read at once", n, addresses*each)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/status/leader", nil))
			if w.Code != http.StatusOK {
				t.Errorf("who leads: %d", w.Code)
			}
			began := time.Now()
			r := httptest.NewRequest(http.MethodPut, "/v1/jobs", strings.NewReader("{}"))
			r.RemoteAddr, r.ContentLength = "10.0.2.1:1", size
			w = httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if took := time.Since(began); w.Code != http.StatusBadRequest || took > 30*time.Second {
				t.Errorf("another client: %d after %v: %s", w.Code, took, w.Body)
			}
			if ended.Load() == 0 {
				t.Error("none gave way")
			}
			close(let)
			for range addresses * each {
				if code := <-codes; code != http.StatusBadRequest && code != http.StatusTooManyRequests {
					t.Errorf("code %d", code)
				}
			}
		})
	}
}
