package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/internal/durable"
	"github.com/open-nomad/open-nomad/internal/soaktest"
)

// operation is what a user asks for, the driver's calls that it takes, and how it ends.
type operation struct {
	name string
	// controller and node are the calls, in their order.
	controller, node []string
	// ask may be repeated when its answer is lost.
	ask func() error
	// done is nil when the operation is carried out whole.
	done func() error
}

const grown = 3 << 20

// life is all that happens to a volume.
func (b *bed) life(id string) []operation {
	j := writer(id, id)
	return []operation{
		{
			name: "create", controller: []string{"CreateVolume"},
			ask: func() error { return b.tryCreate(id) }, done: func() error { return b.exists(id) },
		},
		{
			name: "claim", controller: []string{"ControllerPublishVolume"}, node: []string{"NodeStageVolume", "NodePublishVolume"},
			ask: func() error { _, _, err := b.API.Jobs().Register(j, nil); return err }, done: func() error { return b.written(id) },
		},
		{
			name: "expand", controller: []string{"ControllerExpandVolume"}, node: []string{"NodeExpandVolume"},
			ask: func() error { return b.tryExpand(id, grown) }, done: func() error { return b.hasGrown(id, grown) },
		},
		{
			name: "release", node: []string{"NodeUnpublishVolume", "NodeUnstageVolume"}, controller: []string{"ControllerUnpublishVolume"},
			ask: func() error { _, _, err := b.API.Jobs().Deregister(id, true, nil); return gone(err) },
			done: func() error {
				if err := b.left(); err != nil {
					return err
				}
				return oneWriter(b.journal(id))
			},
		},
		{
			name: "delete", controller: []string{"DeleteVolume"},
			ask: func() error { return b.tryDelete(id) }, done: func() error { return b.deleted(id) },
		},
	}
}

// gone takes "not found" for done.
func gone(err error) error {
	var answer api.UnexpectedResponseError
	if errors.As(err, &answer) && answer.StatusCode() == http.StatusNotFound {
		return nil
	}
	return err
}

// written is nil when the job's task has written on the volume and still runs.
func (b *bed) written(id string) error {
	running := b.Allocs(id, "running")
	if len(running) != 1 {
		return fmt.Errorf("%d run; %s %s", len(running), b.tell(id), b.waits(id))
	}
	if !strings.Contains(b.journal(id), "beat "+running[0].ID) {
		return errors.New("it writes nothing")
	}
	return nil
}

// tryExpand asks for more room; the answer may be lost.
func (b *bed) tryExpand(id string, size int64) error {
	spec := kit.SingleWriter("hp", id)
	spec.RequestedCapacityMin = size
	_, _, err := b.API.CSIVolumes().Create(spec, nil)
	return err
}

// hasGrown is nil when driver, node and servers agree on the size.
func (b *bed) hasGrown(id string, size int64) error {
	v, _, err := b.API.CSIVolumes().Info(id, nil)
	if err != nil {
		return err
	}
	raw, err := durable.Read(filepath.Join(b.storage, "volumes", v.ExternalID+".json"))
	if err != nil {
		return err
	}
	var stored struct{ SizeBytes int64 }
	if err := json.Unmarshal(raw, &stored); err != nil {
		return err
	}
	if v.Capacity != size || stored.SizeBytes != size {
		return fmt.Errorf("the servers know %d bytes, the driver %d, want %d", v.Capacity, stored.SizeBytes, size)
	}
	for _, c := range b.calls(id, "NodeExpandVolume") {
		if !c.Ended.IsZero() && c.Code == 0 {
			return nil
		}
	}
	return errors.New("the node did not expand it")
}

// tryDelete asks for the end of a volume; the answer may be lost.
func (b *bed) tryDelete(id string) error {
	r, err := http.NewRequest(http.MethodDelete, b.API.Address()+"/v1/volume/csi/"+id+"/delete", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNotFound {
		body, err := io.ReadAll(resp.Body)
		return errors.Join(fmt.Errorf("%s: %s", resp.Status, body), err)
	}
	return nil
}

// deleted is nil when neither the servers nor the driver have the volume.
func (b *bed) deleted(id string) error {
	if _, _, err := b.API.CSIVolumes().Info(id, nil); err == nil {
		return errors.New("the servers have it")
	} else if gone(err) != nil {
		return err
	}
	if left := b.stored(); len(left) > 0 {
		return fmt.Errorf("the driver has %q", left)
	}
	delete(b.volumes, id)
	return nil
}

// kills count the deaths of servers.
type kills struct {
	*bed
	togo int
	// by counts them by the place where they hit.
	by    map[string]int
	worst time.Duration
}

// strike ends the leader and brings it back; between does what must happen while it is dead. From then on
// another server is asked, if there is one.
func (k *kills) strike(where string, between func()) {
	k.t.Helper()
	old := k.leader()
	old.Kill9()
	k.togo--
	k.by[where]++
	between()
	for _, s := range k.servers {
		if s != old {
			k.Host = s
		}
	}
	old.Restart()
	k.Until(20*time.Second, "a server to lead", func() error {
		_, _, err := k.API.Nodes().List(nil)
		return err
	})
}

// leader waits for the server that leads.
func (k *kills) leader() (found *kit.Host) {
	k.t.Helper()
	k.Until(20*time.Second, "a leader", func() error {
		address, err := k.API.Status().Leader()
		if err != nil {
			return err
		}
		for _, s := range k.servers {
			if strings.HasPrefix(address, s.IP+":") && s.Alive() {
				found = s
				return nil
			}
		}
		return fmt.Errorf("%q leads", address)
	})
	return found
}

// inside carries an operation out and kills the server inside each of the calls: before the driver did
// anything, or after it did and before its answer.
func (k *kills) inside(d operation, calls []string, lost bool) {
	k.t.Helper()
	hang := func(i int) {
		switch {
		case i >= len(calls) || k.togo == 0:
			k.faults()
		case lost:
			k.faults(script.Fault{RPC: calls[i], Lost: true, Hang: true, Code: unavailable, Text: "lost"})
		default:
			k.faults(script.Fault{RPC: calls[i], Hang: true})
		}
	}
	seen := map[string]int{}
	for _, rpc := range calls {
		seen[rpc] = len(k.calls("", rpc))
	}
	hang(0)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_ = d.ask() // it dies with the server, or not; what was asked must happen
	}()
	var began time.Time
	for i, rpc := range calls {
		if k.togo == 0 {
			break
		}
		k.Until(20*time.Second, rpc+" to hang", func() error {
			if len(k.calls("", rpc)) <= seen[rpc] {
				return fmt.Errorf("no call; %s", k.tell(d.name))
			}
			return nil
		})
		k.strike(map[bool]string{false: "before the work of ", true: "after the work of "}[lost]+rpc, func() { hang(i + 1) })
		began = time.Now()
	}
	<-asked
	k.finished(d, began)
}

// sometime kills the server at any moment of an operation: also before the intent is written, and after the
// answer is. The user asks again when the answer was lost.
func (k *kills) sometime(d operation) {
	k.t.Helper()
	asked := make(chan error, 1)
	go func() { asked <- d.ask() }()
	<-time.After(rand.N(60 * time.Millisecond))
	k.strike("any moment of "+d.name, func() {})
	began := time.Now()
	if err := <-asked; err != nil {
		k.Until(20*time.Second, d.name+" to be answered", d.ask)
	}
	k.finished(d, began)
}

func (k *kills) finished(d operation, began time.Time) {
	k.t.Helper()
	if began.IsZero() {
		began = time.Now()
	}
	k.Until(30*time.Second, d.name+" to be carried out", d.done)
	k.worst = max(k.worst, time.Since(began))
}

func TestFault07ServerKilledInsideCalls(t *testing.T) {
	t.Parallel()
	for _, servers := range []int{1, 3} {
		t.Run(fmt.Sprintf("servers-%d", servers), func(t *testing.T) { killInside(t, servers) })
	}
}

func killInside(t *testing.T, servers int) {
	all := soaktest.Rounds(12, 50)
	k := &kills{bed: layout{servers: servers, nodes: 2, attach: true}.bed(t), togo: all, by: map[string]int{}}
	for round := 0; k.togo > 0; round++ {
		id := fmt.Sprint("v", round)
		for _, d := range k.life(id) {
			switch way := round % 5; {
			case k.togo == 0:
				k.inside(d, nil, false)
			case way == 4:
				k.sometime(d)
			case way < 2:
				k.inside(d, d.controller, way == 1)
			default:
				k.inside(d, d.node, way == 3)
			}
		}
	}
	k.clean()
	t.Logf("kills by place: %v", k.by)
	k.within("the slowest recovery", k.worst, 10*time.Second)
	k.row(7, fmt.Sprintf("leader of %d kill -9 inside create, claim, expand, release, delete; before and after each step; %d kills", servers, all),
		fmt.Sprintf("%d of %d ended as asked, the slowest %s after the restart; no orphan", all, all, short(k.worst)), "as if nothing had happened; no orphan")
}

// tryCreate asks for a volume; the answer may be lost.
func (b *bed) tryCreate(id string) error {
	_, _, err := b.API.CSIVolumes().Create(kit.SingleWriter("hp", id), nil)
	return err
}

// exists checks that a volume is there and made, and takes it into the bed's list.
func (b *bed) exists(id string) error {
	v, _, err := b.API.CSIVolumes().Info(id, nil)
	if err != nil {
		return err
	}
	if v.ExternalID == "" {
		return fmt.Errorf("it is not made yet")
	}
	b.volumes[id] = v.ExternalID
	return nil
}
