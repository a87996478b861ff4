package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/internal/soaktest"
)

// access is one read or write of a job's number.
type access struct {
	job    string
	write  bool
	number int
}

// numbers is the rule that histories must keep: each job holds the number that was written last.
var numbers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		return parts(history, func(in any) string { return in.(access).job })
	},
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		if in := input.(access); in.write {
			return true, in.number
		}
		return output.(int) == state.(int), state
	},
}

// parts are the operations on each object, in the order of their names.
func parts(history []porcupine.Operation, object func(input any) string) (out [][]porcupine.Operation) {
	by := map[string][]porcupine.Operation{}
	for _, o := range history {
		name := object(o.Input)
		by[name] = append(by[name], o)
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, by[name])
	}
	return out
}

// history is what all clients saw.
type history struct {
	mu    sync.Mutex
	began time.Time
	ops   []porcupine.Operation
	// acked counts answered writes, unknown those whose outcome was not told.
	acked, unknown, reads int
}

func (h *history) now() int64 { return int64(time.Since(h.began)) }

// add takes one operation; with an error its outcome is not known, and a read then says nothing.
func (h *history) add(client int, in, out any, call int64, err error) {
	read := false
	switch in := in.(type) {
	case access:
		read = !in.write
	case use:
		read = in.op == "read"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	o := porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: h.now()}
	switch {
	case err != nil && read:
		return
	case err != nil:
		o.Return = math.MaxInt64 // it may happen at any time from now on
		o.Output = nil
		h.unknown++
	case read:
		h.reads++
	default:
		h.acked++
	}
	h.ops = append(h.ops, o)
}

// numbered is an operation that writes or reads a number, which is written once.
type numbered interface {
	// wrote is the number that is written, of which object; 0 when none is.
	wrote() (object string, number int)
	// saw is the number that was read by the outcome; 0 when none was.
	saw(out any) (object string, number int)
	// replaces reports whether the write leaves nothing of what was, and is permitted whatever was.
	replaces() bool
}

func (a access) wrote() (string, int) {
	if !a.write {
		return a.job, 0
	}
	return a.job, a.number
}

func (a access) saw(out any) (string, int) {
	if a.write {
		return a.job, 0
	}
	return a.job, out.(int)
}

func (a access) replaces() bool { return true }

// known are the operations with what reads tell of writes of unknown outcome, which makes the search for an order short:
// one whose number was read came before the end of the read, and one that replaces what was and was never read may have
// come last.
func (h *history) known() (ops []porcupine.Operation) {
	type key struct {
		object string
		number int
	}
	read := map[key]int64{}
	for _, o := range h.ops {
		object, number := o.Input.(numbered).saw(o.Output)
		if at, seen := read[key{object, number}]; number != 0 && (!seen || o.Return < at) {
			read[key{object, number}] = o.Return
		}
	}
	for _, o := range h.ops {
		in := o.Input.(numbered)
		if object, number := in.wrote(); o.Output == nil && number != 0 {
			at, seen := read[key{object, number}]
			if !seen && in.replaces() {
				continue
			}
			if seen {
				o.Return = at
			}
		}
		ops = append(ops, o)
	}
	return ops
}

// check fails the test unless the history keeps the rule.
func (h *history) check(t *testing.T, what string, rule porcupine.Model) {
	t.Helper()
	ops := h.known()
	result, tried := porcupine.CheckOperationsVerbose(rule, ops, 2*time.Minute)
	//exhaustive:enforce
	switch result {
	case porcupine.Ok:
	case porcupine.Illegal:
		t.Errorf("the history of %s is not linearizable: %s", what, stuck(rule, ops, tried))
	case porcupine.Unknown:
		t.Errorf("the history of %s could not be checked within two minutes", what)
	}
}

// stuck tells of each object the last operations of the longest order that keeps the rule, and what was left at its end.
func stuck(rule porcupine.Model, ops []porcupine.Operation, tried porcupine.LinearizationInfo) string {
	const shown = 12
	var out strings.Builder
	tell := func(o porcupine.Operation) {
		fmt.Fprintf(&out, "\n  client %d, %.3f s to %.3f s: %+v: %+v", o.ClientId, time.Duration(o.Call).Seconds(), time.Duration(o.Return).Seconds(), o.Input, o.Output)
	}
	orders := tried.PartialLinearizationsOperations()
	for i, part := range rule.Partition(ops) {
		var longest []porcupine.Operation
		for _, order := range orders[i] {
			if len(order) > len(longest) {
				longest = order
			}
		}
		left := slices.DeleteFunc(slices.Clone(part), func(o porcupine.Operation) bool { return slices.Contains(longest, o) })
		if len(left) == 0 {
			continue
		}
		slices.SortFunc(left, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
		fmt.Fprintf(&out, "\n%d of %d operations have an order, the last of them", len(longest), len(part))
		for _, o := range longest[max(0, len(longest)-shown):] {
			tell(o)
		}
		fmt.Fprintf(&out, "\nthen none of")
		for _, o := range left[:min(shown, len(left))] {
			tell(o)
		}
	}
	return out.String()
}

// count is how many operations were answered.
func (h *history) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.acked + h.reads
}

// work reads and writes jobs at all servers until ctx ends.
func (h *history) work(ctx context.Context, client int, servers []*kit.Host, next func() int) error {
	rnd := rand.New(rand.NewPCG(1, uint64(client)))
	for ctx.Err() == nil {
		s := servers[rnd.IntN(len(servers))]
		at, err := api.NewClient(&api.Config{Address: fmt.Sprintf("http://%s:4646", s.IP), HttpClient: &http.Client{Timeout: time.Second}})
		if err != nil {
			return err
		}
		in := access{job: fmt.Sprint("n", rnd.IntN(4)), write: rnd.IntN(2) == 0}
		call := h.now()
		if in.write {
			in.number = next()
			j := kit.ShellJob(in.job, "exec sleep 1000")
			j.TaskGroups[0].Count = ptr(0)
			j.Meta = map[string]string{"number": fmt.Sprint(in.number)}
			_, _, err = at.Jobs().Register(j, nil)
			h.add(client, in, 0, call, err)
			continue
		}
		got, _, err := at.Jobs().Info(in.job, nil)
		number := 0
		if err == nil {
			number, err = strconv.Atoi(got.Meta["number"])
		} else if response, ok := err.(api.UnexpectedResponseError); ok && response.StatusCode() == http.StatusNotFound {
			err = nil
		}
		h.add(client, in, number, call, err)
		<-time.After(time.Millisecond)
	}
	return nil
}

// trouble is what happens to a leader; it ends when the function that it answers is called. Clients reach the leader all
// the while, as far as it answers.
var trouble = []func(c *cluster, leader *kit.Host) (end func()){
	func(_ *cluster, leader *kit.Host) func() { // killed
		leader.Kill9()
		return leader.Restart
	},
	func(c *cluster, leader *kit.Host) func() { // apart from the other servers
		others := c.without(leader)
		for _, o := range others {
			c.lab.Partition(leader, o)
		}
		return func() {
			for _, o := range others {
				c.lab.Join(leader, o)
			}
		}
	},
	func(_ *cluster, leader *kit.Host) func() { // as if its machine stood still: it does not know what it missed
		leader.Freeze()
		return leader.Thaw
	},
}

func (c *cluster) without(one *kit.Host) (rest []*kit.Host) {
	for _, s := range c.servers {
		if s != one {
			rest = append(rest, s)
		}
	}
	return rest
}

func TestHistoryIsLinearizableWhileLeadersFail(t *testing.T) {
	t.Parallel()
	rounds, operations := soaktest.Rounds(1, 4)*len(trouble), soaktest.Rounds(500, 2000) // operations is the least number of replies
	c := newCluster(t)
	// A server that gossip thinks dead is removed, also when it has just come back: two would be left, and then one of them fails.
	if out, code := c.servers[0].Run("operator", "autopilot", "set-config", "-cleanup-dead-servers=false"); code != 0 {
		t.Fatal(out)
	}
	h, volumes := &history{began: time.Now()}, &history{began: time.Now()}
	var mu sync.Mutex
	number := 1 // volumes are created by 1
	next := func() int {
		mu.Lock()
		defer mu.Unlock()
		number++
		return number
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var clients sync.WaitGroup
	all := c.servers
	storage, takes := c.useVolumes(ctx, volumes, next, &clients)
	for i := range 4 {
		clients.Go(func() {
			if err := h.work(ctx, i, all, next); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	var sent *dispatches
	clients.Go(func() {
		var err error
		if sent, err = c.dispatch(ctx); err != nil {
			t.Errorf("dispatch: %v", err)
		}
	})
	for i := range rounds {
		old := c.leader(nil)
		h.more(old, operations/rounds/2, operations*i/rounds+operations/rounds/2)
		end := trouble[i%len(trouble)](c, old)
		c.servers = c.without(old)
		next := c.leader(old)
		h.more(next, operations/rounds/2, operations*(i+1)/rounds) // the old leader is asked, too
		end()
		c.servers = all
		c.voters(3)
	}
	cancel()
	clients.Wait()
	if n := h.count(); n < operations {
		t.Errorf("%d operations were answered, want %d", n, operations)
	}
	h.check(t, "jobs", numbers)
	volumes.check(t, "volumes", oneHolder)
	if sent != nil {
		c.checkDispatched(sent)
	}
	noViolationIn(t, storage)
	if n := takes(); n < rounds {
		t.Errorf("jobs used volumes %d times in %d rounds", n, rounds)
	}
	kit.Measured(t, fmt.Sprintf("cluster | history of jobs while the leader is killed, cut off or frozen %d times | %d writes, %d of unknown outcome, %d reads: linearizable %v | linearizable",
		rounds, h.acked, h.unknown, h.reads, !t.Failed()))
	kit.Measured(t, fmt.Sprintf("cluster | volumes in the same time | %d uses by jobs, %d writes, %d of unknown outcome, %d reads; the driver saw no second writer %v | one writer at a time",
		takes(), volumes.acked, volumes.unknown, volumes.reads, !t.Failed()))
}

// more waits until so many operations were answered from now on, and a total.
func (h *history) more(host *kit.Host, n, total int) {
	before := h.count()
	host.Until(2*time.Minute, "more operations", func() error {
		if now := h.count(); now < before+n/4 || now < total {
			return fmt.Errorf("%d operations, were %d, to be %d", now, before, total)
		}
		return nil
	})
}
