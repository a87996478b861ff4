package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
)

func noReschedule() *api.ReschedulePolicy {
	return &api.ReschedulePolicy{
		Attempts: ptr(0), Unlimited: ptr(false), Interval: ptr(time.Duration(0)), Delay: ptr(5 * time.Second),
		DelayFunction: ptr("constant"), MaxDelay: ptr(time.Duration(0)),
	}
}

// says waits until the answer to a request has all the words.
func (b *bed) says(what, path string, words ...string) time.Duration {
	b.t.Helper()
	body := ""
	began := time.Now()
	for time.Since(began) < 30*time.Second {
		body = b.get(path)
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(body, w) }) {
			return time.Since(began)
		}
		<-time.After(50 * time.Millisecond)
	}
	b.t.Errorf("%s: not all of %q in %s", what, words, body)
	return 30 * time.Second
}

func TestFault21WhateverWaitsSaysWhy(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, true)
	var worst time.Duration
	var shown []string
	see := func(what string, d time.Duration) {
		worst = max(worst, d)
		shown = append(shown, fmt.Sprintf("%s %s", what, short(d)))
	}

	// The way up: the driver refuses for a while.
	for _, rpc := range []string{"ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"} {
		b.volume(rpc, nil)
		text := "the array reboots at " + rpc
		b.faults(script.Fault{RPC: rpc, Code: unavailable, Text: text})
		b.Register(writer(rpc, rpc))
		alloc := b.any(rpc)
		see(rpc+": alloc", b.says("allocation at "+rpc, "/v1/allocation/"+alloc.ID, text))
		see("volume", b.says("volume at "+rpc, "/v1/volume/csi/"+rpc, text))
		b.faults()
		b.Running(rpc, 1)
	}

	// Another job waits for the claim.
	b.Register(writer("waits", "NodeStageVolume"))
	b.blocked("waits")
	holder := b.Running("NodeStageVolume", 1)
	see("claim: evaluations", b.says("evaluations of the waiting job", "/v1/job/waits/evaluations", "NodeStageVolume"))
	plan, _, err := b.API.Jobs().Plan(writer("plans", "NodeStageVolume"), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m := plan.FailedTGAllocs["g"]; m == nil || !strings.Contains(fmt.Sprint(m.ConstraintFiltered, m.DimensionExhausted), "NodeStageVolume") {
		t.Errorf("the plan does not name the volume: %+v", m)
	} else if !strings.Contains(fmt.Sprint(m.ConstraintFiltered), holder.ID[:8]) && !strings.Contains(fmt.Sprint(m.ConstraintFiltered), "NodeStageVolume") {
		t.Errorf("the plan does not name the holder: %+v", m)
	}
	b.Stop("waits", true)

	// The way down.
	text := "the array is full of holes"
	for _, rpc := range []string{"NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume"} {
		volume := strings.Replace(rpc, "Unpublish", "Publish", 1)
		volume = strings.Replace(volume, "Unstage", "Stage", 1)
		b.faults(script.Fault{RPC: rpc, Code: unavailable, Text: text})
		b.Stop(volume, false)
		see(rpc+": volume", b.says("volume at "+rpc, "/v1/volume/csi/"+volume, text))
		b.faults()
		b.Free(volume)
	}

	// The plugin is away: a job that comes now is told.
	b.volume("late", nil)
	h := b.nodes[0]
	up := b.down(h)
	b.Until(10*time.Second, "the plugin to be shown unhealthy", func() error {
		p, _, err := b.API.CSIPlugins().Info("hp", nil)
		if err != nil || p.NodesHealthy != 1 {
			return fmt.Errorf("%v %+v", err, p)
		}
		return nil
	})
	b.Register(on(writer("late", "late"), h))
	see("plugin: job", b.toldOf("late", "hp"))
	up()
	b.beats("late", b.Running("late", 1).ID)
	b.Stop("late", false)
	b.clean()
	b.within("telling", worst, 2*time.Second)
	b.row(21, "attach, stage, publish, claim, unpublish, unstage, detach, plugin wait", strings.Join(shown, "; "), "reason and driver's text within 2 s")
}

// any waits for an allocation of the job, whatever its state.
func (b *bed) any(job string) *api.AllocationListStub {
	b.t.Helper()
	var found *api.AllocationListStub
	b.Until(10*time.Second, "an allocation of "+job, func() error {
		all, _, err := b.API.Jobs().Allocations(job, true, nil)
		if err != nil || len(all) == 0 {
			return fmt.Errorf("none: %v", err)
		}
		found = all[0]
		return nil
	})
	return found
}

// toldOf waits until the job's evaluations or its allocation name the word.
func (b *bed) toldOf(job, word string) time.Duration {
	b.t.Helper()
	return b.Until(10*time.Second, job+" to be told of "+word, func() error {
		body := b.get("/v1/job/" + job + "/evaluations")
		all, _, err := b.API.Jobs().Allocations(job, true, nil)
		if err != nil {
			return err
		}
		for _, a := range all {
			body += b.get("/v1/allocation/"+a.ID+"/") + b.tell(job)
		}
		if !strings.Contains(body, `plugin hp`) && !strings.Contains(body, `plugin "hp"`) && !strings.Contains(body, "CSI plugin "+word) {
			return fmt.Errorf("%s", body)
		}
		return nil
	})
}
