package tasks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/dirs"
	"github.com/open-nomad/open-nomad/client/identities"
	"github.com/open-nomad/open-nomad/internal/retry"
)

// Signer returns signed identities of a task by name.
type Signer interface {
	Sign(ctx context.Context, allocID, task string, names []string) (map[string]string, error)
}

// Pauses between calls to servers that do not reply.
const (
	signPauseMin = 100 * time.Millisecond
	signPauseMax = 5 * time.Second
)

// identityMode is the mode of files with identities: the user of the task is not known before its start.
const identityMode = 0o644

// credentials are what a task receives at its start and what is stored nowhere else.
type credentials struct {
	// Tokens are the signed identities for the environment, by name.
	Tokens map[string]string
	// DefaultToken is the signed default identity of a task with secrets, or with templates that read services or variables; it is
	// empty for others.
	DefaultToken string
	// Secrets are the values of the task's secret blocks, by "<name>.<key>".
	Secrets map[string]string
}

// signedIdentities gets the signed identities of a new attempt, writes those that are files, and renews them while it runs.
type signedIdentities struct{ *task }

func (signedIdentities) name() string { return "identities" }

func (s signedIdentities) up(ctx context.Context, a *attempt) (err error) {
	if a.cred, err = s.credentials(ctx, a.spec, s.g.conf.Dirs.Task(s.task.name)); err != nil {
		return err
	}
	s.makeEnv(a)
	return nil
}

func (s signedIdentities) attend(ctx context.Context, a *attempt) {
	if r := s.renewals(a.spec); !r.Empty() {
		s.renewIdentities(ctx, a.driver, a.id, r)
	}
}

// credentials gets the credentials of a new attempt and writes those that are files. It waits for the servers until ctx
// ends.
func (t *task) credentials(ctx context.Context, spec *api.Task, of dirs.Task) (*credentials, error) {
	list := identities.Shown(spec)
	names := namesOf(list)
	needsDefault := len(spec.Secrets) > 0 || t.g.conf.Identities != nil && asksAPI(spec)
	if needsDefault && !slices.Contains(names, api.IdentityDefaultName) {
		names = append(names, api.IdentityDefaultName)
	}
	out := &credentials{}
	if len(names) == 0 {
		return out, nil
	}
	signed, err := t.sign(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("task %s: sign identities: %w", t.name, err)
	}
	if needsDefault {
		out.DefaultToken = signed[api.IdentityDefaultName]
	}
	for _, id := range list {
		if id.Env {
			if out.Tokens == nil {
				out.Tokens = map[string]string{}
			}
			out.Tokens[identities.Name(id)] = signed[identities.Name(id)]
		}
	}
	if err := writeIdentities(of.Dir(), list, signed); err != nil {
		return nil, fmt.Errorf("task %s: write identities: %w", t.name, err)
	}
	return out, nil
}

func namesOf(list []*api.WorkloadIdentity) (names []string) {
	for _, id := range list {
		names = append(names, identities.Name(id))
	}
	return names
}

// sign waits for servers that do not reply, and reports that as an event of the task.
func (t *task) sign(ctx context.Context, names []string) (map[string]string, error) {
	if t.g.conf.Identities == nil {
		return nil, fault.New(fault.Unimplemented, "this node has no signed identities")
	}
	pauses := retry.Between(signPauseMin, signPauseMax)
	for notified := false; ; notified = true {
		signed, err := t.g.conf.Identities.Sign(ctx, t.g.conf.Alloc.ID, t.name, names)
		if err == nil || !identities.Passing(err) || ctx.Err() != nil {
			return signed, err
		}
		if !notified {
			t.emit(message(eventSlow, "The servers are waited for, which sign the identities of the task: "+err.Error()))
		}
		if !pauses.Wait(ctx) {
			return nil, err
		}
	}
}

// writeIdentities writes the identities that the task finds as files below its directory.
func writeIdentities(dir string, list []*api.WorkloadIdentity, signed map[string]string) error {
	files := map[string]textFile{}
	for _, id := range list {
		if id.File {
			files[identities.File(id)] = textFile{text: []byte(signed[identities.Name(id)]), mode: identityMode}
		}
	}
	if len(files) == 0 {
		return nil
	}
	return writeFiles(dir, files)
}
