package faults

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// eachCode does something for every code at once and waits for all.
func eachCode(do func(kind string, code int)) {
	var all sync.WaitGroup
	for kind, code := range everyCode {
		all.Go(func() { do(kind, code) })
	}
	all.Wait()
}

// scripts are faults of one call with every code; volume names what each is about.
func scripts(rpc string, volume func(kind string) string) (all []script.Fault) {
	for _, kind := range slices.Sorted(maps.Keys(everyCode)) {
		code := everyCode[kind]
		all = append(all, script.Fault{
			RPC: rpc, Volume: volume(kind), Code: code, Text: "trouble " + kind, Delay: time.Duration(code%2) * 300 * time.Millisecond,
		})
	}
	return all
}

// asked waits until the driver got a call for every volume of the faults.
func (b *bed) asked(faults []script.Fault) {
	b.t.Helper()
	b.Until(20*time.Second, "the driver to be asked for all", func() error {
		seen := map[string]bool{}
		for _, c := range b.calls("", faults[0].RPC) {
			seen[c.Volume] = true
		}
		for _, f := range faults {
			if !seen[f.Volume] {
				return fmt.Errorf("%s: no %s", f.Text, f.RPC)
			}
		}
		return nil
	})
}

func TestFault12EveryCodeOfCreateAndDelete(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, false)
	creates := scripts("CreateVolume", func(kind string) string { return kind })
	b.faults(creates...)
	answers := map[string]<-chan string{}
	for kind := range everyCode {
		answers[kind] = b.later(kind, nil)
	}
	b.asked(creates)
	for kind := range everyCode {
		if outcomes[kind] == fails {
			select {
			case a := <-answers[kind]:
				if !strings.Contains(a, "trouble "+kind) || strings.HasPrefix(a, "200") {
					t.Errorf("create, %s: %s", kind, a)
				}
			case <-time.After(30 * time.Second):
				t.Errorf("create, %s: not answered after 30 s", kind)
			}
		}
	}
	b.faults()
	began := time.Now()
	// Who asked for what was refused asks again; the rest comes by itself.
	eachCode(func(kind string, _ int) {
		if outcomes[kind] != waits {
			b.again("create "+kind, func() error { return b.tryCreate(kind) })
		}
	})
	for kind := range everyCode {
		b.Until(15*time.Second, kind+" to exist", func() error { return b.exists(kind) })
	}
	created := time.Since(began)
	if n := len(b.stored()); n != len(everyCode) {
		t.Errorf("the driver has %d volumes, want %d", n, len(everyCode))
	}

	deletes := scripts("DeleteVolume", func(kind string) string { return b.volumes[kind] })
	b.faults(deletes...)
	go eachCode(func(kind string, _ int) { _ = b.tryDelete(kind) })
	b.asked(deletes)
	<-time.After(time.Second)
	b.faults()
	began = time.Now()
	eachCode(func(kind string, _ int) { b.again("delete "+kind, func() error { return b.tryDelete(kind) }) })
	for kind := range everyCode {
		if known, _ := b.inUse(kind); known {
			t.Errorf("delete, %s: the servers have it", kind)
		}
	}
	// The driver said of one that it is not there, which is the end of it for the servers.
	left := slices.DeleteFunc(b.stored(), func(file string) bool { return strings.Contains(file, b.volumes["not-found"]) })
	if len(left) > 0 {
		t.Errorf("the driver has %q", left)
	}
	deleted := time.Since(began)
	clear(b.volumes)
	b.clean()
	b.within("creating after the faults", created, 10*time.Second)
	b.within("deleting after the faults", deleted, 10*time.Second)
	b.row(12, "every code at create and delete", fmt.Sprintf("all made %s, all gone %s after", short(created), short(deleted)), "recovers <= 10 s; no orphan; final codes at once")
}

// again repeats what a user would repeat until it is answered well.
func (b *bed) again(what string, do func() error) {
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		if err = do(); err == nil {
			return
		}
	}
	b.t.Errorf("%s: %v", what, err)
}

func TestFault12EveryCodeOfExpansion(t *testing.T) {
	t.Parallel()
	everyCodeOfExpansion(t, "ControllerExpandVolume")
}

// everyCodeOfExpansion expands volumes in use. Whatever the driver said, asking again makes them grow.
func everyCodeOfExpansion(t *testing.T, rpc string) {
	b := newBed(t, 2, true)
	for kind := range everyCode {
		b.volume(kind, nil)
		b.Register(kit.WithVolume(kit.ShellJob(kind, "exec sleep 1000"), kind))
	}
	b.Until(60*time.Second, "all to run", func() error { return b.count("running", len(everyCode)) })
	faults := scripts(rpc, func(kind string) string { return b.volumes[kind] })
	b.faults(faults...)
	var asking sync.WaitGroup
	asking.Go(func() { eachCode(func(kind string, _ int) { _ = b.tryExpand(kind, grown) }) })
	b.asked(faults)
	<-time.After(2 * time.Second)
	b.faults()
	began := time.Now()
	asking.Wait()
	eachCode(func(kind string, _ int) {
		b.again("expand "+kind, func() error {
			if err := b.tryExpand(kind, grown); err != nil {
				return err
			}
			return b.hasGrown(kind, grown)
		})
	})
	took := time.Since(began)
	if err := b.count("running", len(everyCode)); err != nil {
		t.Errorf("jobs whose volumes grew: %v", err)
	}
	for id := range b.volumes {
		b.Stop(id, false)
	}
	b.clean()
	b.within("expanding after the faults", took, 10*time.Second)
	b.row(12, "every code at "+rpc, "all grown "+short(took)+" after", "recovers <= 10 s; asked again it works")
}

func TestFault12EveryCodeOfSnapshots(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, false)
	sources := map[string]string{}
	for kind := range everyCode {
		b.volume(kind, nil)
		sources[kind] = b.volumes[kind]
	}
	ids, guard := map[string]string{}, sync.Mutex{}
	snap := func(kind string) error {
		made, _, err := b.API.CSIVolumes().CreateSnapshot(&api.CSISnapshot{Name: "of-" + kind, SourceVolumeID: kind, PluginID: "hp"}, nil)
		if err != nil {
			return err
		}
		guard.Lock()
		defer guard.Unlock()
		ids[kind] = made.Snapshots[0].ID
		return nil
	}
	faults := scripts("CreateSnapshot", func(kind string) string { return sources[kind] })
	b.faults(faults...)
	go eachCode(func(kind string, _ int) { _ = snap(kind) })
	b.asked(faults)
	<-time.After(time.Second)
	b.faults()
	began := time.Now()
	eachCode(func(kind string, _ int) { b.again("snapshot "+kind, func() error { return snap(kind) }) })
	made := time.Since(began)

	drop := func(kind string) error {
		return gone(b.API.CSIVolumes().DeleteSnapshot(&api.CSISnapshot{ID: ids[kind], PluginID: "hp"}, nil))
	}
	faults = scripts("DeleteSnapshot", func(kind string) string { return ids[kind] })
	b.faults(faults...)
	go eachCode(func(kind string, _ int) { _ = drop(kind) })
	b.asked(faults)
	<-time.After(time.Second)
	b.faults()
	began = time.Now()
	eachCode(func(kind string, _ int) { b.again("delete snapshot "+kind, func() error { return drop(kind) }) })
	dropped := time.Since(began)
	b.Until(10*time.Second, "no snapshot to be left", func() error {
		left, err := filepath.Glob(filepath.Join(b.storage, "snapshots", "*.json"))
		left = slices.DeleteFunc(left, func(file string) bool { return strings.Contains(file, ids["not-found"]) })
		if len(left) > 0 {
			return fmt.Errorf("the driver has %q", left)
		}
		return err
	})
	b.clean()
	b.within("snapshots after the faults", made, 10*time.Second)
	b.within("their deletion after the faults", dropped, 10*time.Second)
	b.row(12, "every code at snapshots", fmt.Sprintf("all made %s, all gone %s after", short(made), short(dropped)), "recovers <= 10 s; no orphan")
}

func TestFault12EveryCodeOfExpansionOnNodes(t *testing.T) {
	t.Parallel()
	everyCodeOfExpansion(t, "NodeExpandVolume")
}
