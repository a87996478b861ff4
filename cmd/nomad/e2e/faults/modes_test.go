package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
)

func TestNewCapabilitiesOfAVolumeAreValidatedByItsDriver(t *testing.T) {
	b := newBed(t, 2, false)
	b.volume("v1", nil)
	shared := map[string]any{"RequestedCapabilities": capabilities("multi-node-multi-writer")}
	const text = "this disk has one cable"
	b.faults(script.Fault{RPC: "ValidateVolumeCapabilities", Code: invalidArgument, Text: text})
	answer, code := b.register("v1", b.volumes["v1"], shared)
	b.refused("a mode that the driver refuses", answer, code, text)
	for i, h := range b.nodes {
		b.Register(on(sharing(fmt.Sprint("w", i), "v1"), h))
	}
	for i := range b.nodes {
		b.blocked(fmt.Sprint("w", i))
	}
	if n := b.Claimed("v1"); n > 0 {
		t.Errorf("%d claims in a mode that the driver refused", n)
	}

	b.faults()
	before := len(b.calls("", "ValidateVolumeCapabilities"))
	if answer, code := b.register("v1", b.volumes["v1"], shared); code != 200 {
		t.Fatalf("a mode that the driver takes: %d %s", code, answer)
	}
	if len(b.calls("", "ValidateVolumeCapabilities")) == before {
		t.Error("the driver was not asked")
	}
	for i := range b.nodes {
		b.runs(fmt.Sprint("w", i), "v1", 15*time.Second)
		b.Stop(fmt.Sprint("w", i), false)
	}
	b.clean()
	b.figure("a known volume registered with new modes", "refused with the driver's text, taken when the driver takes them", "validated by the driver")
}
