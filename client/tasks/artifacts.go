package tasks

import (
	"context"
	"path/filepath"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/artifacts"
	"github.com/open-nomad/open-nomad/client/store"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// Artifacts downloads the artifacts of tasks.
type Artifacts interface {
	Fetch(ctx context.Context, to artifacts.Place, list []artifacts.Artifact) error
}

// artifactFiles downloads the artifacts of the task, once: later attempts find what the earlier ones have made of them.
type artifactFiles struct{ *task }

func (artifactFiles) name() string { return "artifacts" }

func (s artifactFiles) up(ctx context.Context, a *attempt) error {
	if len(a.spec.Artifacts) == 0 || s.fetched() {
		return nil
	}
	if s.g.conf.Artifacts == nil {
		return fault.New(fault.Unimplemented, "task %s: this node downloads no artifacts", s.task.name)
	}
	of := s.g.conf.Dirs.Task(s.task.name)
	to := artifacts.Place{
		Scratch: filepath.Join(s.g.conf.Dirs.Dir(), scratchPrefix+s.task.name), Task: of.Dir(), Shared: s.g.conf.Dirs.Shared(),
		Isolated: a.driver.Capabilities().Isolation != driver.IsolationNone, Namespace: a.alloc.Namespace, User: a.env.Replace(a.spec.User),
	}
	if to.User == "" && a.driver.Capabilities().Isolation == driver.IsolationChroot {
		to.User = "nobody" // the default of such drivers
	}
	var list []artifacts.Artifact
	for _, x := range a.spec.Artifacts {
		list = append(list, artifacts.Artifact{
			Source: a.env.Replace(x.GetterSource), Destination: a.env.Replace(x.RelativeDest), Mode: x.GetterMode,
			Options: replaced(a, x.GetterOptions), Headers: replaced(a, x.GetterHeaders), Insecure: x.GetterInsecure, Chown: x.Chown,
		})
	}
	if err := a.env.Unknown(); err != nil {
		return err
	}
	if !a.downloading {
		a.downloading = true
		s.emit(event(api.EventDownloadingArtifacts, "Client is downloading artifacts"))
	}
	if err := s.g.conf.Artifacts.Fetch(ctx, to, list); err != nil {
		return downloadError{err}
	}
	return s.change(lazily, func(r *store.TaskRecord, _ *api.TaskState) { r.Fetched = true })
}

// scratchPrefix begins the names of directories that no task can have.
const scratchPrefix = ".made-artifacts-"

func replaced(a *attempt, in map[string]string) map[string]string {
	out, _ := a.env.Value(in).(map[string]string)
	return out
}

// fetched reports whether an earlier attempt has downloaded the artifacts.
func (t *task) fetched() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rec.Fetched
}

// downloadError is an error with an event of its own.
type downloadError struct{ error }

func (e downloadError) Unwrap() error { return e.error }
