package faults

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// gRPC codes that the scripts use.
const (
	unknown          = 2
	invalidArgument  = 3
	deadlineExceeded = 4
	notFound         = 5
	aborted          = 10
	internal         = 13
	unavailable      = 14
	unauthenticated  = 16
)

// everyCode are all codes that the CSI specification gives a meaning, and those that gRPC itself answers.
var everyCode = map[string]int{
	"cancelled": 1, "unknown": unknown, "invalid": invalidArgument, "deadline": deadlineExceeded, "not-found": notFound, "exists": 6,
	"denied": 7, "exhausted": 8, "precondition": 9, "aborted": aborted, "range": 11, "unimplemented": 12, "internal": internal,
	"unavailable": unavailable, "data-loss": 15, "unauthenticated": unauthenticated,
}

// outcome is what an error of a call on the way to a running task leads to.
type outcome string

const (
	waits outcome = "waits" // repeated until it passes
	fails outcome = "fails" // the allocation fails at once
	tries outcome = "tries" // repeated a few times, or elsewhere
)

var outcomes = map[string]outcome{
	"cancelled": waits, "deadline": waits, "aborted": waits, "unavailable": waits, "hang": waits, "lost": waits, "delay": waits,
	"invalid": fails, "exists": fails, "denied": fails, "range": fails, "data-loss": fails, "unauthenticated": fails,
	"unknown": tries, "not-found": tries, "exhausted": tries, "unimplemented": tries, "internal": tries,
}

// trouble is one volume with one fault of the driver.
type trouble struct {
	name, kind string
	script.Fault
}

// up reports whether the call is on the way to a running task.
func (f *trouble) up() bool { return !strings.Contains(f.RPC, "Un") }

// leads is what the fault leads to.
func (f *trouble) leads() outcome {
	if f.kind == "precondition" {
		// Attached elsewhere, which passes; what a node must not repeat does not.
		return map[bool]outcome{true: waits, false: fails}[strings.HasPrefix(f.RPC, "Controller")]
	}
	return outcomes[f.kind]
}

// text is the driver's message.
func (f *trouble) text() string { return "trouble " + f.name }

// mountCalls are the calls that bring a volume to a task and take it away again.
var mountCalls = []string{
	"ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume",
}

// troubles are all codes at all of those calls, by turns at once and after a while, and what is no code.
func troubles() (all []*trouble) {
	for i, rpc := range mountCalls {
		add := func(kind string, f script.Fault) {
			f.RPC = rpc
			t := &trouble{name: fmt.Sprintf("%s-%d", kind, i), kind: kind, Fault: f}
			t.Text = t.text()
			all = append(all, t)
		}
		for kind, code := range everyCode {
			add(kind, script.Fault{Code: code, Delay: time.Duration((i+code)%2) * 300 * time.Millisecond})
		}
		if !strings.HasPrefix(rpc, "Controller") { // those have a test of their own
			add("hang", script.Fault{Hang: true})
		}
		add("lost", script.Fault{Code: deadlineExceeded, Lost: true})
		add("delay", script.Fault{Delay: time.Second})
	}
	return all
}

func TestFault12DriverFaultsPass(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, true)
	all := troubles()
	var faults []script.Fault
	for _, f := range all {
		b.volume(f.name, nil)
		f.Volume = b.volumes[f.name]
		faults = append(faults, f.Fault)
	}
	for i := range 4 {
		b.volume(fmt.Sprint("by", i), nil)
	}
	job := func(f *trouble) {
		j := kit.WithVolume(kit.ShellJob(f.name, "echo start $NOMAD_ALLOC_ID >> data/journal; exec sleep 1000"), f.name)
		j.TaskGroups[0].ReschedulePolicy = noReschedule()
		b.Register(j)
	}
	for _, f := range all {
		if !f.up() {
			job(f)
		}
	}
	for _, f := range all {
		if !f.up() {
			b.Running(f.name, 1)
		}
	}

	b.faults(faults...)
	for _, f := range all {
		if f.up() {
			job(f)
		} else {
			b.Stop(f.name, false)
		}
	}
	others := b.meanwhile()
	b.Until(20*time.Second, "what is final to have failed", func() error { return b.failed(all) })
	index := b.raftIndex()
	<-time.After(3 * time.Second)
	writes := b.raftIndex() - index
	b.troubled(all)

	b.faults()
	slowest, last := b.recovered(all)
	b.clean()
	// The row says MISSED above the bars; the test fails far above them.
	const recovers, delayed = 10 * time.Second, 3 * time.Second
	missed := ""
	if slowest > recovers || slices.Max(others) > delayed {
		missed = "; MISSED"
	}
	b.within("recovery of "+last, slowest, 2*recovers)
	b.within("starting or stopping another job", slices.Max(others), 2*delayed)
	if writes > 2*len(all) { // a loop would write for each of them every second
		t.Errorf("%d raft writes in 3 s while %d volumes waited", writes, len(all))
	}
	b.row(12, fmt.Sprintf("every code at every call of a mount, quick and slow; hang, lost answer, delay: %d volumes", len(all)),
		fmt.Sprintf("all recovered after %s (%s); others delayed to %s; %d raft writes in 3 s%s", short(slowest), last, short(slices.Max(others)), writes, missed),
		"recovers <= 10 s; others delayed <= 3 s; no hot loop")
}

// meanwhile starts and stops jobs whose volumes have no trouble, and measures each.
func (b *bed) meanwhile() (took []time.Duration) {
	for i := range 4 {
		id := fmt.Sprint("by", i)
		began := time.Now()
		b.Register(kit.WithVolume(kit.ShellJob(id, "exec sleep 1000"), id))
		b.runs(id, id, 30*time.Second)
		took = append(took, time.Since(began))
		began = time.Now()
		b.Stop(id, true)
		b.Free(id)
		took = append(took, time.Since(began))
	}
	return took
}

// failed names what should have failed by now and has not.
func (b *bed) failed(all []*trouble) error {
	for _, f := range all {
		if f.up() && f.leads() == fails && len(b.Allocs(f.name, "failed")) == 0 {
			return fmt.Errorf("%s (%s): %s", f.name, f.RPC, b.tell(f.name))
		}
	}
	return nil
}

// troubled checks each volume while its driver has trouble.
func (b *bed) troubled(all []*trouble) {
	b.t.Helper()
	for _, f := range all {
		failed := b.Allocs(f.name, "failed")
		switch {
		case f.kind == "delay":
		case !f.up():
			if b.Claimed(f.name) == 0 && len(b.attached(f.name))+len(b.mounted(f.name)) > 0 {
				b.t.Errorf("%s (%s): the claim is free, attached to %q, mounted at %q", f.name, f.RPC, b.attached(f.name), b.mounted(f.name))
			}
		case len(b.Allocs(f.name, "running")) > 0:
			b.t.Errorf("%s (%s) runs during the fault", f.name, f.RPC)
		case f.leads() == waits && len(failed) > 0:
			b.t.Errorf("%s (%s): %d allocations failed", f.name, f.RPC, len(failed))
		case f.leads() == waits && b.Claimed(f.name) != 1:
			b.t.Errorf("%s (%s): %d claims during the fault", f.name, f.RPC, b.Claimed(f.name))
		case f.leads() == fails && len(failed) == 1 && !strings.Contains(b.get("/v1/allocation/"+failed[0].ID), f.text()):
			b.t.Errorf("%s (%s): the allocation does not say what the driver said", f.name, f.RPC)
		}
	}
}

// recovered waits until all is as it should be without faults, and answers what took the longest time.
func (b *bed) recovered(all []*trouble) (slowest time.Duration, last string) {
	b.t.Helper()
	began := time.Now()
	for _, f := range all {
		switch {
		case !f.up():
			b.Free(f.name)
		case f.leads() == waits:
			b.Running(f.name, 1)
			if n := len(b.Allocs(f.name, "failed")); n > 0 {
				b.t.Errorf("%s (%s): %d allocations failed", f.name, f.RPC, n)
			}
		}
		if d := time.Since(began); d > slowest+20*time.Millisecond {
			slowest, last = d, f.name+" "+f.RPC
		}
	}
	for _, f := range all {
		if f.up() {
			b.Stop(f.name, false)
		}
	}
	return slowest, last
}

// raftIndex is how many entries the server's log has had.
func (b *bed) raftIndex() int {
	b.t.Helper()
	self, err := b.API.Agent().Self()
	if err != nil {
		b.t.Fatal(err)
	}
	n, err := strconv.Atoi(self.Stats["raft"]["last_log_index"])
	if err != nil {
		b.t.Fatalf("no index of the raft log: %v", self.Stats["raft"])
	}
	return n
}

func TestFault12HangingControllerCallDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, true)
	for _, id := range []string{"up", "down", "other"} {
		b.volume(id, nil)
	}
	b.Register(on(writer("down", "down"), b.nodes[0]))
	b.beats("down", b.Running("down", 1).ID)
	b.faults(script.Fault{RPC: "ControllerPublishVolume", Volume: b.volumes["up"], Hang: true},
		script.Fault{RPC: "ControllerUnpublishVolume", Volume: b.volumes["down"], Hang: true})
	b.Register(on(writer("up", "up"), b.nodes[0]))
	b.Stop("down", false)
	b.Until(10*time.Second, "both calls to hang", func() error {
		if n := len(b.calls("up", "ControllerPublishVolume")) + len(b.calls("down", "ControllerUnpublishVolume")); n < 1 {
			return fmt.Errorf("%d calls", n)
		}
		return nil
	})
	b.Register(on(writer("other", "other"), b.nodes[0]))
	delayed := b.runs("other", "other", 15*time.Second)
	b.faults()
	began := time.Now()
	b.runs("up", "up", 20*time.Second)
	b.Free("down")
	back := time.Since(began)
	b.Stop("up", false)
	b.Stop("other", false)
	b.clean()
	b.within("starting another job", delayed, 3*time.Second)
	b.within("recovery", back, 10*time.Second)
	b.row(12, "attach of one volume and detach of another hang", fmt.Sprintf("a third starts in %s; all well %s after", short(delayed), short(back)), "nothing else delayed; recovers <= 10 s")
}

func TestFault12FinalCodesFailAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, true)
	var faults []script.Fault
	rpcs := []string{"ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"}
	const text = "the volume has three heads"
	for _, rpc := range rpcs {
		b.volume(rpc, nil)
		faults = append(faults, script.Fault{RPC: rpc, Volume: b.volumes[rpc], Code: invalidArgument, Text: text})
	}
	b.faults(faults...)
	var took []time.Duration
	for _, rpc := range rpcs {
		began := time.Now()
		j := writer(rpc, rpc)
		j.TaskGroups[0].ReschedulePolicy = noReschedule()
		b.Register(j)
		for time.Since(began) < 30*time.Second && len(b.Allocs(rpc, "failed")) == 0 {
			<-time.After(20 * time.Millisecond)
		}
		took = append(took, time.Since(began))
		if len(b.Allocs(rpc, "failed")) != 1 {
			t.Errorf("%s refused for good, but the allocation waits: %s %s", rpc, b.tell(rpc), b.waits(rpc))
			b.Stop(rpc, false)
			continue
		}
		body := b.get("/v1/allocation/" + b.Allocs(rpc, "failed")[0].ID)
		if !strings.Contains(body, text) {
			t.Errorf("%s: the allocation does not say what the driver said: %s", rpc, body)
		}
	}
	b.faults()
	b.clean()
	b.within("failing", slices.Max(took), 5*time.Second)
	b.row(12, "INVALID_ARGUMENT at attach, stage, publish", "allocation failed with the driver's text after "+short(took...), "at once; nothing left")
}

// get answers the body of a request.
func (b *bed) get(path string) string {
	b.t.Helper()
	resp, err := http.Get(b.API.Address() + path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(body)
}
