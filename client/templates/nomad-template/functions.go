package main

import (
	"errors"
	"os"
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"
)

// elsewhere are functions for the data of other products.
var elsewhere = map[string][]string{
	"Consul": {
		"caLeaf", "caRoots", "connect", "datacenters", "exportedServices", "key", "keyExists", "keyOrDefault", "ls", "node", "nodes", "partitions",
		"peerings", "safeLs", "safeTree", "service", "services", "tree",
	},
	"Vault": {"pkiCert", "secret", "secrets"},
}

// functions are those that differ from the library's.
func (r *renderer) functions(t *oneTemplate) map[string]any {
	out := map[string]any{"file": func(path string) (string, error) { return r.file(t, path) }}
	for product, names := range elsewhere {
		for _, name := range names {
			out[name] = func(...any) (string, error) { return "", errors.New("it needs " + product + ": not in this version") }
		}
	}
	for _, name := range []string{"plugin", "writeToFile"} {
		out[name] = func(...any) (string, error) { return "", errors.New("it is refused on this node") }
	}
	return out
}

// file returns the content of a file of the task, which the agent reads.
func (r *renderer) file(t *oneTemplate, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	t.reads[path] = true
	f, known := r.files[path]
	switch {
	case f.Refused != "":
		return "", errors.New(f.Refused)
	case !known || f.Missing != "":
		t.lacks["file("+path+")"] = true
	}
	return f.Content, nil
}

// watchEvery is the time between two looks at the resources of an execution.
const watchEvery = 10 * time.Millisecond

// watchExecution ends the program when the execution of a template, until the returned function is called, takes too much.
func (r *renderer) watchExecution(t *oneTemplate) func() {
	done := make(chan struct{})
	began := processorTime()
	go func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if memoryUse() > r.spec.MemoryMax {
				r.out.fail(t.Name + ": it needs more memory than a template may use")
			}
			if processorTime()-began > r.spec.ProcessorMax {
				r.out.fail(t.Name + ": it takes longer than a template may: does it have a loop without an end?")
			}
		}
	}()
	return func() { close(done) }
}

func memoryUse() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		os.Exit(1)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
