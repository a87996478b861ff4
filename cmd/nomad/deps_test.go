package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPinnedModules keeps versions that were chosen by measurement: see the dependency notes in
// nomad/fsm/DESIGN.md.
func TestPinnedModules(t *testing.T) {
	body, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	mod := string(body)
	if !strings.Contains(mod, "github.com/hashicorp/raft-wal v0.4.1\n") {
		t.Error("raft-wal must be v0.4.1: later ones do not build with this raft")
	}
	if strings.Contains(mod, "raft-boltdb") || !strings.Contains(mod, "github.com/hashicorp/go-metrics v0.7.") {
		t.Error("raft-boltdb is unusable with go-metrics 0.7")
	}
	if strings.Contains(mod, "github.com/hashicorp/nomad") {
		t.Error("the compatible system's modules belong to the nested end-to-end module only")
	}
}

// TestLicences lets only licences pass that this project can be distributed with.
func TestLicences(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-json=Module", "./cmd/nomad")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := map[string]bool{}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p struct {
			Module *struct {
				Path, Dir string
				Main      bool
			}
		}
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if p.Module == nil || p.Module.Main || seen[p.Module.Path] {
			continue
		}
		seen[p.Module.Path] = true
		if !licensed(p.Module.Dir) {
			t.Errorf("module %s has no licence that we accept", p.Module.Path)
		}
	}
}

func licensed(dir string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "[Ll][Ii][Cc][Ee][Nn][SsCc][Ee]*"))
	for _, f := range files {
		body, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		text := strings.Join(strings.Fields(string(body)), " ")
		if strings.Contains(text, "GNU GENERAL PUBLIC") || strings.Contains(text, "GNU AFFERO") || strings.Contains(text, "Business Source") {
			return strings.Contains(text, "Mozilla Public License")
		}
		for _, ok := range []string{
			"Apache License", "Mozilla Public License", "Permission is hereby granted", "Permission to use, copy, modify",
			"Redistribution and use in source and binary forms",
		} {
			if strings.Contains(text, ok) {
				return true
			}
		}
	}
	return false
}
