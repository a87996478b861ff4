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
	invalidArgument  = 3
	deadlineExceeded = 4
	aborted          = 10
	internal         = 13
	unavailable      = 14
)

// trouble is one volume with one fault of the driver.
type trouble struct {
	name string
	rpc  string
	script.Fault
}

// up tells whether the call is on the way to a running task.
func (f *trouble) up() bool { return !strings.Contains(f.rpc, "Un") }

func troubles() []*trouble {
	kinds := []struct {
		name string
		script.Fault
	}{
		{"unavailable", script.Fault{Code: unavailable, Text: "the array reboots"}},
		{"aborted", script.Fault{Code: aborted, Text: "another call is pending"}},
		{"hang", script.Fault{Hang: true}},
		{"lost", script.Fault{Code: deadlineExceeded, Text: "too slow", Lost: true}},
		{"delay", script.Fault{Delay: time.Second}},
	}
	var all []*trouble
	for i, rpc := range []string{
		"ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume",
	} {
		for _, k := range kinds {
			if k.Hang && strings.HasPrefix(rpc, "Controller") {
				continue // has a test of its own
			}
			all = append(all, &trouble{name: fmt.Sprintf("%s-%d", k.name, i), rpc: rpc, Fault: k.Fault})
		}
		if strings.Contains(rpc, "Un") {
			all = append(all, &trouble{name: fmt.Sprintf("internal-%d", i), rpc: rpc, Fault: script.Fault{Code: internal, Text: "a bug"}})
		}
	}
	return all
}

func TestFault12DriverFaultsPass(t *testing.T) {
	b := newBed(t, 2, true)
	all := troubles()
	var faults []script.Fault
	for _, f := range all {
		b.volume(f.name, nil)
		f.RPC, f.Volume = f.rpc, b.volumes[f.name]
		faults = append(faults, f.Fault)
	}
	for i := range 4 {
		b.volume(fmt.Sprint("by", i), nil)
	}
	idle := func(f *trouble) string { return "echo start $NOMAD_ALLOC_ID >> data/journal; exec sleep 1000" }
	job := func(f *trouble) { b.Register(kit.WithVolume(kit.ShellJob(f.name, idle(f)), f.name)) }
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
	var others []time.Duration
	for i := range 4 {
		id := fmt.Sprint("by", i)
		began := time.Now()
		b.Register(kit.WithVolume(kit.ShellJob(id, "exec sleep 1000"), id))
		b.runs(id, id, 10*time.Second)
		others = append(others, time.Since(began))
		began = time.Now()
		b.Stop(id, true)
		b.Free(id)
		others = append(others, time.Since(began))
	}
	<-time.After(2 * time.Second)
	index := b.raftIndex()
	<-time.After(3 * time.Second)
	writes := b.raftIndex() - index
	for _, f := range all {
		if f.name[:5] == "delay" {
			continue
		}
		if held := b.Claimed(f.name); held != 1 {
			t.Errorf("%s: %d claims during the fault", f.name, held)
		}
		if n := len(b.Allocs(f.name, "running")); f.up() && n > 0 {
			t.Errorf("%s runs during the fault", f.name)
		}
		if n := len(b.Allocs(f.name, "failed")); n > 0 {
			t.Errorf("%s: %d allocations failed", f.name, n)
		}
	}

	b.faults()
	began := time.Now()
	var slowest time.Duration
	var last string
	for _, f := range all {
		if f.up() {
			b.Running(f.name, 1)
		} else {
			b.Free(f.name)
		}
		if d := time.Since(began); d > slowest+20*time.Millisecond {
			slowest, last = d, f.name
		}
	}
	for _, f := range all {
		if f.up() {
			if n := len(b.Allocs(f.name, "failed")); n > 0 {
				t.Errorf("%s: %d allocations failed", f.name, n)
			}
			b.Stop(f.name, false)
		}
	}
	b.clean()
	b.within("recovery of "+last, slowest, 10*time.Second)
	b.within("starting or stopping another job", slices.Max(others), 3*time.Second)
	if writes > 2*len(all) { // a loop would write for each of them every second
		t.Errorf("%d raft writes in 3 s while %d volumes waited", writes, len(all))
	}
	b.row(12, fmt.Sprintf("%d volumes with a fault each, cleared after about 6 s", len(all)),
		fmt.Sprintf("all recovered after %s (%s); others delayed to %s; %d raft writes in 3 s", short(slowest), last, short(slices.Max(others)), writes),
		"recovers <= 10 s; nothing else delayed; no hot loop")
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
		for time.Since(began) < 8*time.Second && len(b.Allocs(rpc, "failed")) == 0 {
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
