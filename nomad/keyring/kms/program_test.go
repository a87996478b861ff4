package kms_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/open-nomad/open-nomad/nomad/keyring/kms"
)

// replaced makes a service whose program is a script.
func replaced(t *testing.T, script string) *kms.Service {
	t.Helper()
	s, err := kms.New("transit", map[string]string{"token": "secret"}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	kms.Carry(s, fstest.MapFS{"bin/nomad-kms": {Data: []byte("#!/bin/sh\n" + script)}})
	return s
}

func TestAProgramThatEndsIsReported(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"read a; echo panic: out of luck >&2; echo goroutine 1 >&2; exit 2": "the program for transit ended: exit status 2: panic: out of luck; the next call starts it again",
		"kill -9 $$":                        "signal: killed",
		"read a; read b; echo no JSON; cat": "the program for transit ended",
	} {
		s := replaced(t, script)
		for range 2 {
			_, err := s.Encrypt(t.Context(), []byte("key"))
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "goroutine") {
				t.Errorf("%q: %v, want %q", script, err, want)
			}
		}
	}
}

func TestAProgramThatHangsIsKilled(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "started")
	s := replaced(t, "echo x >> "+mark+"; [ $(wc -l < "+mark+") = 2 ] || exec sleep 1000; read a; read b; echo '{\"Result\": \"eA==\"}'; read c")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.Encrypt(ctx, []byte("key")); err == nil || !strings.Contains(err.Error(), "transit does not answer") {
		t.Error(err)
	}
	// The second call waits until the first process is killed, and starts another one.
	if got, err := s.Encrypt(t.Context(), []byte("key")); err != nil || string(got) != "x" {
		t.Errorf("%q %v", got, err)
	}
}

// processes returns the process IDs of the programs that run from a directory.
func processes(t *testing.T, dir string) (list []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, exe := range all {
		if at, err := os.Readlink(exe); err == nil && strings.HasPrefix(at, dir) {
			list = append(list, filepath.Base(filepath.Dir(exe)))
		}
	}
	return list
}

func TestOneProcessServesAllCallsWithoutSecretsInItsArguments(t *testing.T) {
	t.Parallel()
	v, dir := newVault(t), t.TempDir()
	s, err := kms.New("transit", v.config(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := processes(t, dir); len(got) != 0 {
		t.Errorf("processes before the first call: %v", got)
	}
	for range 3 {
		if _, err := s.Encrypt(t.Context(), []byte("key")); err != nil {
			t.Fatal(err)
		}
	}
	got := processes(t, dir)
	if len(got) != 1 {
		t.Fatalf("processes: %v, want 1", got)
	}
	args, err := os.ReadFile("/proc/" + got[0] + "/cmdline")
	if n := strings.Count(string(args), "\x00"); err != nil || n != 1 {
		t.Errorf("%d arguments, want only the name of the program: %q %v", n, args, err)
	}
}
