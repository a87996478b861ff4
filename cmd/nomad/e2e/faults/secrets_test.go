package faults

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
)

// password is a secret of a volume as a field of its description.
func password(value string) map[string]any {
	return map[string]any{"Secrets": map[string]string{script.PasswordKey: value}}
}

// asks makes the driver ask for a password.
func (b *bed) asks(value string) {
	b.t.Helper()
	if err := script.Require(b.storage, value); err != nil {
		b.t.Fatal(err)
	}
}

// corrected registers a volume with another password.
func (b *bed) corrected(id, value string) {
	b.t.Helper()
	if answer, code := b.register(id, b.volumes[id], password(value)); code != 200 {
		b.t.Fatalf("register with another secret: %d %s", code, answer)
	}
}

// refusals waits until the driver has refused the call often.
func (b *bed) refusals(volume, rpc string, often int) {
	b.t.Helper()
	b.Until(20*time.Second, rpc+" to be refused", func() error {
		n := 0
		for _, c := range b.calls(volume, rpc) {
			if c.Code == unauthenticated {
				n++
			}
		}
		if n < often {
			return fmt.Errorf("%d times; %s", n, b.waits(volume))
		}
		return nil
	})
}

func TestSecretsAreCorrectedRotatedAndNeverShown(t *testing.T) {
	t.Parallel()
	const first, wrong, second = "correct-horse-7731", "wrnog-horse-7731", "battery-staple-9942"
	b := newBed(t, 2, true)
	b.asks(first)
	b.volume("v1", password(first))

	b.corrected("v1", wrong)
	j := writer("w", "v1")
	j.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{
		Attempts: ptr(0), Unlimited: ptr(true), Interval: ptr(time.Duration(0)), Delay: ptr(5 * time.Second), DelayFunction: ptr("constant"), MaxDelay: ptr(time.Duration(0)),
	}
	b.Register(j)
	b.refusals("v1", "ControllerPublishVolume", 1)
	b.unshown(first, wrong, second)
	began := time.Now()
	b.corrected("v1", first)
	b.runs("w", "v1", 40*time.Second)
	right := time.Since(began)
	b.beats("v1", b.Running("w", 1).ID)

	b.asks(second)
	b.Stop("w", false)
	b.refusals("v1", "ControllerUnpublishVolume", 2)
	b.unshown(first, wrong, second)
	began = time.Now()
	b.corrected("v1", second)
	b.Until(40*time.Second, "the detach", func() error {
		if at := b.attached("v1"); len(at) > 0 {
			return fmt.Errorf("attached to %q; %s", at, b.waits("v1"))
		}
		return nil
	})
	rotated := time.Since(began)
	b.unshown(first, wrong, second)
	b.unstored(first, wrong, second)
	b.asks("")
	b.clean()
	b.within("running with the right secret", right, 20*time.Second)
	b.within("the detach with the new secret", rotated, 20*time.Second)
	b.figure("wrong secret corrected; secret rotated while attached", fmt.Sprintf("runs %s after, detached %s after", short(right), short(rotated)), "goes on by itself; no secret is shown")
}

// TestDetachGoesOnWithTheSecretsOfTheAttachment has an operator store the next secret before the provider takes it.
func TestDetachGoesOnWithTheSecretsOfTheAttachment(t *testing.T) {
	t.Parallel()
	const first, second = "correct-horse-7731", "battery-staple-9942"
	b := newBed(t, 1, true)
	b.asks(first)
	b.volume("v1", password(first))
	b.Register(writer("w", "v1"))
	b.beats("v1", b.Running("w", 1).ID)
	b.corrected("v1", second)
	b.Stop("w", false)
	began := time.Now()
	b.Until(20*time.Second, "the detach", func() error {
		if at := b.attached("v1"); len(at) > 0 {
			return fmt.Errorf("attached to %q; %s", at, b.waits("v1"))
		}
		return nil
	})
	took := time.Since(began)
	b.unshown(first, second)
	b.asks("")
	b.clean()
	b.figure("next secret stored before the provider takes it", "detached "+short(took)+" after the stop", "the other secret is tried")
}

// TestSecretsOfAVariable has the secrets of a volume in a variable: a change of the variable needs no registration, and a
// rotation of the root key no attention.
func TestSecretsOfAVariable(t *testing.T) {
	t.Parallel()
	const first, second, third, sealed = "correct-horse-7731", "battery-staple-9942", "third-secret-5518", "sealed-secret-6627"
	b := newBed(t, 1, true)
	must := func(args ...string) string {
		t.Helper()
		out, code := b.Run(args...)
		if code != 0 {
			t.Fatalf("%s: %d %s", strings.Join(args, " "), code, out)
		}
		return out
	}
	put := func(value string) { must("var", "put", "-force", "nomad/jobs/csi", script.PasswordKey+"="+value) }
	from := map[string]any{"SecretsFrom": "nomad/jobs/csi"}

	b.asks(first)
	missing := b.later("v1", from)
	b.Until(20*time.Second, "the volume to name the variable", func() error {
		if out, _ := b.Run("volume", "status", "-verbose", "v1"); !strings.Contains(out, "`nomad var put -namespace default nomad/jobs/csi KEY=VALUE` sets them") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	put(first)
	<-missing
	b.volume("v1", from)
	b.Register(writer("w", "v1"))
	b.beats("v1", b.Running("w", 1).ID)
	if out := must("volume", "status", "v1"); !strings.Contains(out, "nomad/jobs/csi") {
		t.Errorf("the status does not name the variable:\n%s", out)
	}

	b.asks(second)
	put(second)
	b.Stop("w", false)
	detached := func(volume string) {
		t.Helper()
		b.Until(20*time.Second, "the detach of "+volume, func() error {
			if at := b.attached(volume); len(at) > 0 {
				return fmt.Errorf("attached to %q; %s", at, b.waits(volume))
			}
			return nil
		})
	}
	detached("v1")
	b.asks(sealed)
	b.volume("v2", password(sealed))
	must("operator", "root", "keyring", "rotate", "-full")
	var former string
	b.Until(20*time.Second, "the former root key to be free", func() error {
		var keys []struct{ KeyID, State string }
		if _, err := b.API.Raw().Query("/v1/operator/keyring/keys", &keys, nil); err != nil {
			return err
		}
		for _, k := range keys {
			if k.State != "active" {
				former = k.KeyID
			}
			if k.State == "rekeying" {
				return fmt.Errorf("%+v", keys)
			}
		}
		return nil
	})
	must("operator", "root", "keyring", "remove", "-force", former)
	b.Register(writer("w2", "v2"))
	b.beats("v2", b.Running("w2", 1).ID)
	b.Stop("w2", true)
	detached("v2")
	b.asks(third)
	put(third)
	b.Register(writer("w", "v1"))
	b.beats("v1", b.Running("w", 1).ID)
	b.unshown(first, second, third, sealed)
	b.unstored(first, second, third, sealed)
	b.asks("")
	b.Stop("w", false)
	b.clean()
}

// TestAMountWaitsForItsVariable has a driver that does not attach: the node asks for the secrets.
func TestAMountWaitsForItsVariable(t *testing.T) {
	t.Parallel()
	const value = "correct-horse-7731"
	b := newBed(t, 1, false)
	put := func() {
		t.Helper()
		if out, code := b.Run("var", "put", "-force", "nomad/jobs/csi", script.PasswordKey+"="+value); code != 0 {
			t.Fatal(out)
		}
	}
	put()
	b.asks(value)
	b.volume("v1", map[string]any{"SecretsFrom": "nomad/jobs/csi"})
	if out, code := b.Run("var", "purge", "nomad/jobs/csi"); code != 0 {
		t.Fatal(out)
	}
	b.Register(writer("w", "v1"))
	b.Until(20*time.Second, "the allocation to name the variable", func() error {
		for _, a := range b.Allocs("w", "pending") {
			out, _ := b.Run("alloc", "status", "-verbose", a.ID)
			if strings.Contains(out, "`nomad var put -namespace default nomad/jobs/csi KEY=VALUE` sets them") {
				return nil
			}
			return fmt.Errorf("%s", out)
		}
		return fmt.Errorf("no allocation is pending")
	})
	put()
	b.runs("w", "v1", 40*time.Second)
	b.beats("v1", b.Running("w", 1).ID)
	b.unstored(value)
	b.Stop("w", false)
	b.clean()
}

// unstored looks for secrets on the disks of servers and nodes, and in a whole snapshot.
func (b *bed) unstored(secrets ...string) {
	b.t.Helper()
	files := 0
	look := func(where string, body []byte) {
		files++
		for _, s := range secrets {
			if bytes.Contains(body, []byte(s)) {
				b.t.Errorf("%s contains the secret %q", where, s)
			}
		}
	}
	for _, h := range append(b.servers[:len(b.servers):len(b.servers)], b.nodes...) {
		err := filepath.WalkDir(h.Dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil // files come and go
			}
			if body, err := os.ReadFile(path); err == nil {
				look(path, body)
			}
			return nil
		})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	file := b.lab.Path(fmt.Sprintf("whole-%d", time.Now().UnixNano()))
	if out, code := b.Run("operator", "snapshot", "save", file); code != 0 {
		b.t.Fatalf("snapshot save: %s", out)
	}
	look("the snapshot", unpacked(b.t, file))
	if files < 10 {
		b.t.Errorf("only %d files were read", files)
	}
}

// unshown looks for secrets wherever people look.
func (b *bed) unshown(secrets ...string) {
	b.t.Helper()
	look := func(where string, body []byte) {
		for _, s := range secrets {
			if i := bytes.Index(body, []byte(s)); i >= 0 {
				b.t.Errorf("%s shows the secret %q: ...%s", where, s, body[max(0, i-200):i+len(s)])
			}
		}
	}
	paths := []string{
		"/v1/volumes", "/v1/volume/csi/v1", "/v1/plugin/csi/hp", "/v1/allocations?task_states=true", "/v1/evaluations", "/v1/jobs", "/v1/volumes/external?plugin_id=hp",
	}
	commands := [][]string{
		{"volume", "status"},
		{"volume", "status", "-verbose", "v1"},
		{"volume", "status", "-json", "v1"},
		{"volume", "attachments"},
		{"plugin", "status", "-verbose", "hp"},
		{"job", "status", "-verbose", "w"},
	}
	allocs, _, err := b.API.Allocations().List(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, a := range allocs {
		paths = append(paths, "/v1/allocation/"+a.ID)
		commands = append(commands, []string{"alloc", "status", "-verbose", a.ID})
	}
	nodes, _, err := b.API.Nodes().List(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, n := range nodes {
		paths = append(paths, "/v1/node/"+n.ID)
		commands = append(commands, []string{"node", "status", "-verbose", n.ID})
	}
	for _, p := range paths {
		look(p, []byte(b.get(p)))
	}
	for _, c := range commands {
		out, _ := b.Run(c...)
		look(strings.Join(c, " "), []byte(out))
	}
	for _, h := range append(b.servers[:len(b.servers):len(b.servers)], b.nodes...) {
		log, err := os.ReadFile(filepath.Join(h.Dir, "agent.log"))
		if err != nil {
			b.t.Fatal(err)
		}
		look("the log of "+h.Name, log)
	}
	file := b.lab.Path(fmt.Sprintf("redacted-%d", time.Now().UnixNano()))
	if out, code := b.Run("operator", "snapshot", "save", "-redact", file); code != 0 {
		b.t.Errorf("snapshot save -redact: %s", out)
		return
	}
	look("the redacted snapshot", unpacked(b.t, file))
}

// unpacked reads a file that may be compressed.
func unpacked(t *testing.T, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return raw
	}
	body, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return body
}
