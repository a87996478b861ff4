package sessions_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/sessions"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// run is what a driver does.
type run = func(context.Context, *driver.Command) (int, error)

// cat copies its input to its output and ends with code 3.
func cat(_ context.Context, c *driver.Command) (int, error) {
	if _, err := io.Copy(c.Stdout, c.Stdin); err != nil {
		return 0, err
	}
	return 3, nil
}

func newTable(t *testing.T) *sessions.Table {
	t.Helper()
	table := sessions.New(hclog.NewNullLogger())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- table.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return table
}

func command(do run) sessions.Command {
	return sessions.Command{AllocID: "a1", Task: "t", Args: []string{"cat"}, Run: do, Started: func() {}}
}

func open(t *testing.T, table *sessions.Table, id string, do run) {
	t.Helper()
	if err := table.Open(id, command(do)); err != nil {
		t.Fatal(err)
	}
}

func exchange(t *testing.T, table *sessions.Table, r api.ExecRequest) *api.ExecResponse {
	t.Helper()
	out, err := try(t.Context(), table, r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func try(ctx context.Context, table *sessions.Table, r api.ExecRequest) (*api.ExecResponse, error) {
	if r.AllocID == "" {
		r.AllocID = "a1"
	}
	if r.SessionID == "" {
		r.SessionID = "s"
	}
	return table.Exchange(ctx, &r, false)
}

// receiver collects output as a caller does.
type receiver struct{ stdout, stderr []byte }

func (r *receiver) received() int64 { return int64(len(r.stdout) + len(r.stderr)) }

// take adds what is new in a response; it reports false for a gap.
func (r *receiver) take(out *api.ExecResponse) bool {
	skip := r.received() - out.Offset
	if skip < 0 {
		return false
	}
	for _, o := range out.Output {
		n := min(skip, int64(len(o.Data)))
		skip -= n
		if o.Stderr {
			r.stderr = append(r.stderr, o.Data[n:]...)
		} else {
			r.stdout = append(r.stdout, o.Data[n:]...)
		}
	}
	return true
}

// TestNoByteIsLostOrDoubled loses, repeats and reorders calls with input and calls for output.
func TestNoByteIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { lossy(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func lossy(t *testing.T, dice *rand.Rand) {
	table := newTable(t)
	open(t, table, "s", cat)
	want := make([]byte, 300<<10)
	for i := range want {
		want[i] = byte(dice.IntN(256))
	}
	var sent int64
	var got receiver
	var old []api.ExecRequest // requests that may arrive again, late
	ended := false
	for round := 0; !ended; round++ {
		if round > 100_000 {
			t.Fatal("the command does not end")
		}
		var r api.ExecRequest
		input := dice.IntN(2) == 0 && (sent < int64(len(want)) || dice.IntN(2) == 0)
		if input {
			part := want[sent:min(sent+int64(dice.IntN(20_000)), int64(len(want)))]
			r = api.ExecRequest{Input: part, InputOffset: sent, InputEnd: sent+int64(len(part)) == int64(len(want))}
		} else {
			r = api.ExecRequest{Received: got.received()}
		}
		old = append(old, r)
		if dice.IntN(3) == 0 {
			_, _ = try(t.Context(), table, old[dice.IntN(len(old))]) // an old call, whose response is discarded
		}
		out, err := try(t.Context(), table, r)
		if err != nil {
			t.Fatal(err)
		}
		if dice.IntN(3) == 0 {
			continue // the response is lost
		}
		if input {
			sent = max(sent, min(out.Accepted, int64(len(want))))
			continue
		}
		if !got.take(out) {
			t.Fatalf("output before %d is lost, %d is received", out.Offset, got.received())
		}
		if ended = out.Exited; ended && out.ExitCode != 3 {
			t.Errorf("exit code %d", out.ExitCode)
		}
		synctest.Wait()
	}
	if !bytes.Equal(got.stdout, want) {
		t.Errorf("%d bytes came back of %d, or others", len(got.stdout), len(want))
	}
}

func TestTheCommandStartsOnceAndNotBeforeTheFirstExchange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t)
		var starts atomic.Int32
		do := func(context.Context, *driver.Command) (int, error) { starts.Add(1); return 0, nil }
		for range 3 {
			open(t, table, "s", do)
		}
		synctest.Wait()
		if n := starts.Load(); n != 0 {
			t.Fatalf("%d starts before an exchange", n)
		}
		for range 3 {
			exchange(t, table, api.ExecRequest{Wait: time.Second})
			open(t, table, "s", do)
		}
		if n := starts.Load(); n != 1 {
			t.Errorf("%d starts", n)
		}
	})
}

func TestACommandWaitsWithItsOutput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t)
		var written atomic.Int64
		want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		open(t, table, "s", func(_ context.Context, c *driver.Command) (int, error) {
			for part := range slices.Chunk(want, 10_000) {
				n, err := c.Stderr.Write(part)
				written.Add(int64(n))
				if err != nil {
					return 0, err
				}
			}
			return 0, nil
		})
		exchange(t, table, api.ExecRequest{})
		synctest.Wait()
		if n := written.Load(); n > sessions.OutputMax {
			t.Errorf("%d bytes are buffered", n)
		}
		var got receiver
		for {
			out := exchange(t, table, api.ExecRequest{Received: got.received(), Wait: time.Second})
			if !got.take(out) {
				t.Fatal("output is lost")
			}
			if out.Exited {
				break
			}
		}
		if !bytes.Equal(got.stderr, want) || len(got.stdout) > 0 {
			t.Errorf("%d bytes of stderr, %d of stdout", len(got.stderr), len(got.stdout))
		}
	})
}

func TestInputThatNobodyReadsIsNotAccepted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t)
		open(t, table, "s", func(ctx context.Context, _ *driver.Command) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
		out := exchange(t, table, api.ExecRequest{Input: make([]byte, 2*sessions.InputMax), Wait: time.Second})
		if out.Accepted != sessions.InputMax {
			t.Errorf("%d bytes are accepted", out.Accepted)
		}
		begun := time.Now()
		out = exchange(t, table, api.ExecRequest{Input: []byte("x"), InputOffset: sessions.InputMax, Wait: time.Second})
		if out.Accepted != sessions.InputMax || time.Since(begun) != time.Second {
			t.Errorf("%d bytes after %v", out.Accepted, time.Since(begun))
		}
		if _, err := try(t.Context(), table, api.ExecRequest{Input: []byte("x"), InputOffset: sessions.InputMax + 5}); !errors.Is(err, fault.Invalid) {
			t.Errorf("input after a gap: %v", err)
		}
		if _, err := try(t.Context(), table, api.ExecRequest{Received: 1}); !errors.Is(err, fault.Invalid) {
			t.Errorf("output that never was is confirmed: %v", err)
		}
	})
}

func TestASessionThatNobodyUsesEndsItsCommand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t)
		killed := make(chan struct{})
		open(t, table, "s", func(ctx context.Context, _ *driver.Command) (int, error) {
			defer close(killed)
			<-ctx.Done()
			return 0, ctx.Err()
		})
		for range 20 { // one that waits is used
			exchange(t, table, api.ExecRequest{Wait: 5 * time.Second})
		}
		time.Sleep(sessions.IdleMax - time.Second)
		select {
		case <-killed:
			t.Fatal("killed early")
		default:
		}
		time.Sleep(2 * time.Second)
		<-killed
		synctest.Wait()
		if _, err := try(t.Context(), table, api.ExecRequest{}); !errors.Is(err, fault.NotFound) {
			t.Errorf("after its end: %v", err)
		}
	})
}

func TestStopEndsTheCommand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t)
		killed := make(chan struct{})
		open(t, table, "s", func(ctx context.Context, c *driver.Command) (int, error) {
			defer close(killed)
			_, err := io.Copy(io.Discard, c.Stdin) // ends with the session
			return 0, err
		})
		exchange(t, table, api.ExecRequest{})
		exchange(t, table, api.ExecRequest{Stop: true})
		<-killed
	})
}

func TestTheErrorOfACommandIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t)
		open(t, table, "s", func(_ context.Context, c *driver.Command) (int, error) {
			_, _ = c.Stdout.Write([]byte("before"))
			return 0, fault.New(fault.Unavailable, "the engine is down")
		})
		exchange(t, table, api.ExecRequest{})
		synctest.Wait()
		out := exchange(t, table, api.ExecRequest{})
		if len(out.Output) != 1 || string(out.Output[0].Data) != "before" || out.Exited {
			t.Errorf("output before the error: %+v", out)
		}
		for range 2 {
			_, err := try(t.Context(), table, api.ExecRequest{Received: 6})
			if err == nil || fault.Of(err) != fault.Internal || err.Error() != "the engine is down" {
				t.Errorf("%v is of class %v", err, fault.Of(err))
			}
		}
	})
}

func TestTheNewestSizeIsPassedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t)
		var got []driver.TerminalSize
		c := command(func(ctx context.Context, c *driver.Command) (int, error) {
			time.Sleep(time.Second)
			for {
				select {
				case s := <-c.Resize:
					got = append(got, s)
				case <-ctx.Done():
					return 0, ctx.Err()
				case <-time.After(time.Second):
					return 0, nil
				}
			}
		})
		c.TTY = true
		if err := table.Open("s", c); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 3, 2} { // the second one is late
			exchange(t, table, api.ExecRequest{Width: 10 * n, Height: n, SizeNumber: uint64(n)})
		}
		exchange(t, table, api.ExecRequest{Wait: 10 * time.Second})
		if want := []driver.TerminalSize{{Width: 30, Height: 3}}; !slices.Equal(got, want) {
			t.Errorf("%v", got)
		}
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	table := newTable(t)
	for i := range sessions.SessionsPerTask {
		open(t, table, fmt.Sprint(i), cat)
	}
	if err := table.Open("more", command(cat)); !errors.Is(err, fault.Exhausted) {
		t.Errorf("more of one task: %v", err)
	}
	if _, err := try(t.Context(), table, api.ExecRequest{SessionID: "0", Stop: true}); err != nil {
		t.Fatal(err)
	}
	open(t, table, "more", cat)
	n := sessions.SessionsPerTask
	for ; n < sessions.SessionsMax; n++ {
		c := command(cat)
		c.Task = fmt.Sprint("task ", n)
		if err := table.Open(fmt.Sprint(n), c); err != nil {
			t.Fatal(err)
		}
	}
	c := command(cat)
	c.Task = "another"
	if err := table.Open("another", c); !errors.Is(err, fault.Exhausted) {
		t.Errorf("more of the node: %v", err)
	}
}

func TestASessionBelongsToItsAllocation(t *testing.T) {
	t.Parallel()
	table := newTable(t)
	c := command(cat)
	c.OnNode = true
	if err := table.Open("s", c); err != nil {
		t.Fatal(err)
	}
	if _, err := try(t.Context(), table, api.ExecRequest{AllocID: "a2"}); !errors.Is(err, fault.NotFound) {
		t.Errorf("of another allocation: %v", err)
	}
	if _, err := try(t.Context(), table, api.ExecRequest{}); !errors.Is(err, fault.Denied) {
		t.Errorf("without the right on the node: %v", err)
	}
	if _, err := table.Exchange(t.Context(), &api.ExecRequest{AllocID: "a1", SessionID: "s", Stop: true}, true); err != nil {
		t.Error(err)
	}
	other := command(cat)
	other.Args = nil
	if err := table.Open("empty", other); !errors.Is(err, fault.Invalid) {
		t.Errorf("an empty command: %v", err)
	}
	if err := table.Open("", command(cat)); !errors.Is(err, fault.Invalid) {
		t.Errorf("no id: %v", err)
	}
}
