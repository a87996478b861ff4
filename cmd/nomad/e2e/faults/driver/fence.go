package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
	"github.com/open-nomad/open-nomad/internal/durable"
)

// fences reports whether a detach takes the volume from a node that still has it mounted.
func (p *player) fences(call script.Event) bool {
	if call.RPC != "ControllerUnpublishVolume" {
		return false
	}
	raw, err := durable.Read(filepath.Join(p.dir, "volumes", filepath.Base(call.Volume)+".json"))
	if err != nil {
		return false
	}
	var v struct{ Attached, Staged map[string]any }
	if err := json.Unmarshal(raw, &v); err != nil {
		return false
	}
	return v.Attached[call.To] != nil && v.Staged[call.To] != nil
}

// cutOff does what storage does at a detach: what the node still writes no longer reaches the data.
func (p *player) cutOff(call script.Event) error {
	data := filepath.Join(p.dir, "data", filepath.Base(call.Volume))
	old := fmt.Sprintf("%s.cut-from-%s-%d", data, call.To, call.At.UnixNano())
	if err := os.Rename(data, old); err != nil {
		return err
	}
	if out, err := exec.Command("cp", "-a", old, data).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
