package wire

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/net/http2"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// serving serves handlers within limits on a loopback address and says how to dial it.
func serving(tb testing.TB, l limits, handlers ...Handler) (string, Dialer) {
	tb.Helper()
	id, err := SelfMade()
	if err != nil {
		tb.Fatal(err)
	}
	port, err := Listen("127.0.0.1:0", id.Server, hclog.NewNullLogger())
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = port.Run(ctx) })
	all.Go(func() {
		_ = serve(ctx, port.Listener(ProtocolRPC), handlers, hclog.NewNullLogger(), NewProcessors(2), l)
	})
	tb.Cleanup(func() { cancel(); all.Wait() })
	return port.Addr().String(), Dialer{TLS: id.Client}
}

// narrow are limits with little room for long requests, and for so many that wait.
func narrow(requests extent, waiting int64) limits {
	l := usualLimits
	l.requests, l.waiting, l.patience, l.stall = requests, extent{waiting, 2 * waiting}, time.Hour, time.Hour
	return l
}

// beats answers heartbeats; those of nodes "hold..." say that they are there and wait.
func beats(there chan<- struct{}, release <-chan struct{}) Handler {
	return NodeHeartbeat.Handle(func(_ context.Context, r *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
		if strings.HasPrefix(r.NodeID, "hold") {
			there <- struct{}{}
			<-release
		}
		return &api.NodeUpdateResponse{}, nil
	})
}

// A client that begins many long requests at once has no more of them in the server's memory than its share.
func TestUnfinishedRequestsOfOneClientTakeItsShareOnly(t *testing.T) {
	t.Parallel()
	const mib, calls = 1 << 20, 64
	l := narrow(extent{8 * mib, 16 * mib}, calls)
	address, d := serving(t, l, beats(nil, nil))
	s := send(t, address, d)
	for _, id := range ids(calls) {
		s.begin(t, id, NodeHeartbeat.Name, mib)
	}
	taken := s.fill(t, ids(calls), mib-1, 2*time.Second)
	if most := 8*mib + calls*unreadBytes; taken > most || taken < 8*(mib-1) {
		t.Errorf("%d bytes of %d requests of a MiB were taken, with room for %d", taken, calls, most)
	}
	quick, err := Connect(address, d)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = quick.Close() }()
	if _, err := NodeHeartbeat.Call(t.Context(), quick, &api.NodeHeartbeatRequest{NodeID: "n1"}); err != nil {
		t.Errorf("a short request of the same address: %v", err)
	}
}

// What waits too long for room, or comes when too many wait, is refused; it is served once there is room again.
func TestRequestsWithoutRoomAreRefusedAndServedLater(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	there, release := make(chan struct{}), make(chan struct{})
	l := narrow(extent{2 * mib, 4 * mib}, 1)
	l.patience = 50 * time.Millisecond
	address, d := serving(t, l, beats(there, release))
	c, err := Connect(address, d)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	first := make(chan error, 1)
	go func() {
		_, err := NodeHeartbeat.Call(t.Context(), c, &api.NodeHeartbeatRequest{NodeID: "hold" + strings.Repeat("x", mib+mib/2)})
		first <- err
	}()
	<-there
	second := &api.NodeHeartbeatRequest{NodeID: strings.Repeat("x", mib)}
	if _, err := NodeHeartbeat.Call(t.Context(), c, second); !errors.Is(err, fault.Exhausted) || !strings.Contains(err.Error(), "of this address that are under way") {
		t.Errorf("a second one: %v", err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
	for { // the room is given back after the answer
		_, err := NodeHeartbeat.Call(t.Context(), c, second)
		if err == nil {
			break
		} else if !errors.Is(err, fault.Exhausted) {
			t.Fatal(err)
		}
	}
}

// A client that begins many calls has no more of them open than its share, on all its connections, and is in no other one's way.
func TestCallsThatAreOpenAreOfTheShareOnly(t *testing.T) {
	t.Parallel()
	l := usualLimits
	l.calls, l.waiting, l.patience, l.stall = extent{10, 100}, extent{1, 1}, 50*time.Millisecond, time.Hour
	address, d := serving(t, l, beats(nil, nil))
	first, second := send(t, address, d), send(t, address, d)
	for _, s := range []*sending{first, second} {
		for _, id := range ids(10) {
			s.begin(t, id, NodeHeartbeat.Name, 100)
		}
	}
	for end := time.Now().Add(time.Minute); first.over(t)+second.over(t) < 10; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d and %d of 20 calls were refused", first.over(t), second.over(t))
		}
	}
	b := newBudget(l)
	for range 10 {
		if _, err := b.enter(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.enter(t.Context(), "b"); err != nil {
		t.Errorf("another address: %v", err)
	}
}

// Calls whose request does not come are ended: those that never begin it, and those that stop within.
func TestRequestsThatDoNotComeAreEnded(t *testing.T) {
	t.Parallel()
	l := usualLimits
	l.stall = 20 * time.Millisecond
	address, d := serving(t, l, beats(nil, nil))
	s := send(t, address, d)
	s.begin(t, 1, NodeHeartbeat.Name, 100)
	s.begin(t, 3, NodeHeartbeat.Name, MaxMessageBytes)
	s.fill(t, []uint32{3}, 100<<10, time.Millisecond)
	for _, id := range []uint32{1, 3} {
		if code := s.ended(t, id); code != int(codeOf[fault.Timeout]) {
			t.Errorf("call %d ended with code %d", id, code)
		}
	}
}

// What no call may send ends it, before it is read.
func TestRequestsOfTheWrongShapeAreRefused(t *testing.T) {
	t.Parallel()
	address, d := serving(t, usualLimits, beats(nil, nil))
	s := send(t, address, d)
	s.begin(t, 1, NodeHeartbeat.Name, MaxMessageBytes+1)
	if code := s.ended(t, 1); code != int(codeOf[fault.TooLarge]) {
		t.Errorf("too long: code %d", code)
	}
	s.begin(t, 3, NodeHeartbeat.Name, 1)
	s.mu.Lock()
	s.write(t, 3, []byte("xy"))
	s.mu.Unlock()
	if code := s.ended(t, 3); code != int(codeOf[fault.Invalid]) {
		t.Errorf("two requests in a call: code %d", code)
	}
}

// ask makes a call with an empty request.
func (s *sending) ask(tb testing.TB, id uint32, method string) {
	tb.Helper()
	s.begin(tb, id, method, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.WriteData(id, true, []byte{0x80}); err != nil { // a map of nothing
		tb.Fatal(err)
	}
}

// refused waits until so many calls have ended, all because there was no room.
func (s *sending) refused(tb testing.TB, want int) {
	tb.Helper()
	defer time.AfterFunc(time.Minute, func() { _ = s.conn.Close() }).Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.status) < want {
		if s.gone != nil {
			tb.Fatalf("%d calls have ended: %v", len(s.status), s.gone)
		}
		s.more.Wait()
	}
	for id, code := range s.status {
		if code != strconv.Itoa(int(codeOf[fault.Exhausted])) {
			tb.Errorf("call %d ended with code %s", id, code)
		}
	}
}

// over is how many calls have ended, all because there was no room.
func (s *sending) over(tb testing.TB) int {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, code := range s.status {
		if code != strconv.Itoa(int(codeOf[fault.Exhausted])) {
			tb.Errorf("call %d ended with code %s", id, code)
		}
	}
	return len(s.status)
}

// listing answers lists of so many bytes.
func listing(bytes int) Handler {
	return NodeList.Handle(func(context.Context, *api.NodeListRequest) (*api.NodeListResponse, error) {
		return &api.NodeListResponse{Nodes: []*api.NodeStub{{Name: strings.Repeat("x", bytes)}}}, nil
	})
}

// A client that asks much and takes nothing has no more answers in the server's memory than its share.
func TestAnswersThatAreNotTakenAreOfTheShareOnly(t *testing.T) {
	t.Parallel()
	const mib, calls = 1 << 20, 32
	l := narrow(extent{mib, 2 * mib}, calls)
	l.answers, l.patience = extent{4*mib + mib/2, 9 * mib}, 50*time.Millisecond
	address, d := serving(t, l, listing(mib), beats(nil, nil))
	s := send(t, address, d)
	for _, id := range ids(calls) {
		s.ask(t, id, NodeList.Name)
	}
	s.refused(t, calls-4)
	other, err := Connect(address, d)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if _, err := NodeHeartbeat.Call(t.Context(), other, &api.NodeHeartbeatRequest{NodeID: "n1"}); err != nil {
		t.Errorf("a short answer for the same address: %v", err)
	}
	_ = s.conn.Close()
	for {
		got, err := NodeList.Call(t.Context(), other, &api.NodeListRequest{})
		if err == nil && len(got.Nodes[0].Name) == mib {
			break // there is room again when the connection has ended
		} else if !errors.Is(err, fault.Exhausted) {
			t.Fatal(err)
		}
	}
}

func TestShortAnswersThatAreNotTakenAreOfTheShareOnly(t *testing.T) {
	t.Parallel()
	const n, calls = 32 << 10, 64
	l := narrow(extent{1 << 20, 2 << 20}, calls)
	l.shortAnswers, l.patience = extent{8*n + n/2, 17 * n}, 50*time.Millisecond
	address, d := serving(t, l, listing(n-100))
	s := send(t, address, d)
	if err := s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids(calls) {
		s.ask(t, id, NodeList.Name)
	}
	s.refused(t, calls-8)
	if over := s.over(t); over != calls-8 {
		t.Errorf("%d of %d answers found no room; there is some for 8", over, calls)
	}
}

func TestWhoTakesNoAnswerLosesTheConnection(t *testing.T) {
	t.Parallel()
	for _, bytes := range []int{1 << 20, 40 << 10} {
		l := usualLimits
		l.stall = 50 * time.Millisecond
		address, d := serving(t, l, listing(bytes))
		s := send(t, address, d)
		for _, id := range ids(3) {
			s.ask(t, id, NodeList.Name)
		}
		s.lost(t)
	}
}

// lost waits until the connection has ended.
func (s *sending) lost(tb testing.TB) {
	tb.Helper()
	defer time.AfterFunc(time.Minute, func() { s.mu.Lock(); defer s.mu.Unlock(); s.gone = errors.New("nothing ended it"); s.more.Broadcast() }).Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.gone == nil {
		s.more.Wait()
	}
	if !errors.Is(s.gone, io.EOF) {
		tb.Error(s.gone)
	}
}

// A client may give up calls whose answers it does not take; the connection stays, and so does the room of what is queued.
func TestAnswersOfCallsThatWereGivenUpLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	address, d := serving(t, usualLimits, listing(1<<20), beats(nil, nil))
	c, err := Connect(address, d)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for i := range 300 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*20)*time.Microsecond)
		_, _ = NodeList.Call(ctx, c, &api.NodeListRequest{})
		cancel()
	}
	if _, err := NodeHeartbeat.Call(t.Context(), c, &api.NodeHeartbeatRequest{NodeID: "n1"}); err != nil {
		t.Error(err)
	}
}

// BenchmarkHeldByOpenCalls is how much memory a client takes that has as many calls open as it may, with metadata, that wait
// for news.
func BenchmarkHeldByOpenCalls(b *testing.B) {
	for b.Loop() {
		there, release := make(chan struct{}, callsMax), make(chan struct{})
		address, d := serving(b, usualLimits, beats(there, release))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := send(b, address, d)
		body, err := encode(&api.NodeHeartbeatRequest{NodeID: "hold"})
		if err != nil {
			b.Fatal(err)
		}
		for _, id := range ids(callsMax) {
			s.begin(b, id, NodeHeartbeat.Name, len(body))
			s.mu.Lock()
			if err := s.WriteData(id, true, body); err != nil {
				b.Fatal(err)
			}
			s.mu.Unlock()
		}
		for range callsMax {
			<-there
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(int64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse))/callsMax/1024, "KiB-a-call")
		close(release)
		_ = s.conn.Close()
	}
}

// BenchmarkHeldByUntakenAnswers is how much memory a client takes that asks for as many long lists on a connection as it
// may, and takes none.
func BenchmarkHeldByUntakenAnswers(b *testing.B) {
	for b.Loop() {
		address, d := serving(b, usualLimits, listing(32<<20))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := send(b, address, d)
		for _, id := range ids(40) {
			s.ask(b, id, NodeList.Name)
		}
		s.refused(b, 32)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(int64(after.HeapInuse-before.HeapInuse)>>20), "MiB-held")
		_ = s.conn.Close()
	}
}

// BenchmarkHeldByUnfinishedRequests is how much memory a client takes that begins as many long requests on a connection as
// it may have open, and finishes none.
func BenchmarkHeldByUnfinishedRequests(b *testing.B) {
	for b.Loop() {
		address, d := serving(b, usualLimits, beats(nil, nil))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := send(b, address, d)
		for _, id := range ids(callsMax) {
			s.begin(b, id, NodeHeartbeat.Name, MaxMessageBytes)
		}
		taken := s.fill(b, ids(callsMax), MaxMessageBytes-1, 2*time.Second)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(taken>>20), "MiB-sent")
		b.ReportMetric(float64(int64(after.HeapInuse-before.HeapInuse)>>20), "MiB-held")
		_ = s.conn.Close()
	}
}
