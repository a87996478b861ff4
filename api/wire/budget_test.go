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
	l := limits{short: mib, long: 8 * mib, whole: 16 * mib, waiting: calls, patience: time.Hour, stall: time.Hour}
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
	l := limits{short: mib, long: 2 * mib, whole: 4 * mib, waiting: 1, patience: 50 * time.Millisecond, stall: time.Hour}
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

// The addresses share what all have, and none has more than its own part of it.
func TestRoomIsSharedByAddresses(t *testing.T) {
	t.Parallel()
	const n = smallBytes + 1
	b := newBudget(limits{short: 2 * smallBytes, long: 4 * n, whole: 6 * n, waiting: 1, patience: time.Millisecond, stall: time.Hour})
	take := func(who string, bytes int) func() {
		t.Helper()
		give, err := b.take(t.Context(), who, bytes)
		if err != nil {
			t.Fatalf("%s: %v", who, err)
		}
		return give
	}
	refused := func(who string, bytes int, why string) {
		t.Helper()
		if _, err := b.take(t.Context(), who, bytes); !errors.Is(err, fault.Exhausted) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, not %q", who, err, why)
		}
	}
	var gives []func()
	for _, who := range []string{"a", "a", "a", "b", "c"} { // each leaves as much as it has, so that others find some
		gives = append(gives, take(who, n))
	}
	for _, who := range []string{"a", "b", "d"} {
		refused(who, n, "of all clients")
	}
	gives = append(gives, take("a", smallBytes), take("d", 1))
	gives[0]()
	gives[1]()
	gives = append(gives[2:], take("d", n), take("a", smallBytes))
	refused("a", 1, "of this address")
	for _, give := range gives {
		give()
	}
	refused("a", 5*n, "of this address")
	if n := b.by.Len(); n != 0 {
		t.Errorf("%d addresses are remembered without a request", n)
	}
	take("c", 2*n)()
}

// More requests of an address than may wait for room are refused at once.
func TestFewRequestsWaitForRoom(t *testing.T) {
	t.Parallel()
	const n = smallBytes + 1
	b := newBudget(limits{short: n, long: n, whole: 2 * n, waiting: 1, patience: time.Hour, stall: time.Hour})
	give, err := b.take(t.Context(), "a", n)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() {
		give, err := b.take(t.Context(), "a", n)
		if err == nil {
			give()
		}
		got <- err
	}()
	for {
		s := b.by.Enter("a")
		b.mu.Lock()
		waits := s.waiting
		b.mu.Unlock()
		b.by.Leave("a")
		if waits == 1 {
			break
		}
		runtime.Gosched()
	}
	if _, err := b.take(t.Context(), "a", n); !errors.Is(err, fault.Exhausted) {
		t.Errorf("a second one that would wait: %v", err)
	}
	give()
	if err := <-got; err != nil {
		t.Error(err)
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
	l := limits{short: mib, long: mib, whole: mib, answers: 4*mib + mib/2, waiting: calls, patience: 50 * time.Millisecond, stall: time.Hour}
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

func TestWhoTakesNoAnswerLosesTheConnection(t *testing.T) {
	t.Parallel()
	l := usualLimits
	l.stall = 50 * time.Millisecond
	address, d := serving(t, l, listing(1<<20))
	s := send(t, address, d)
	s.ask(t, 1, NodeList.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer time.AfterFunc(time.Minute, func() { s.mu.Lock(); defer s.mu.Unlock(); s.gone = errors.New("nothing ended it"); s.more.Broadcast() }).Stop()
	for s.gone == nil {
		s.more.Wait()
	}
	if !errors.Is(s.gone, io.EOF) {
		t.Error(s.gone)
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
