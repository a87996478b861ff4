package tasks

import (
	"context"
	"errors"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/identities"
	"github.com/open-nomad/open-nomad/client/secrets"
	"github.com/open-nomad/open-nomad/internal/retry"
	"github.com/open-nomad/open-nomad/jobspec/taskenv"
)

// Secrets fetches the values of secret blocks by "<name>.<key>".
type Secrets interface {
	Fetch(ctx context.Context, of secrets.Task, blocks []*api.Secret) (map[string]string, error)
}

// secretValues fetches what the secret blocks of the task name.
type secretValues struct{ *task }

func (secretValues) name() string { return "secrets" }

func (s secretValues) up(ctx context.Context, a *attempt) error {
	if len(a.spec.Secrets) == 0 {
		return nil
	}
	if err := s.fetchSecrets(ctx, a.spec, a.env, a.cred); err != nil {
		return err
	}
	s.makeEnv(a)
	return nil
}

// fetchSecrets fetches the secrets of a new attempt; env is for references in the blocks. It waits for servers that do not reply until
// ctx ends. After another error the task is started again as its restart policy permits: what is missing may be added.
func (t *task) fetchSecrets(ctx context.Context, spec *api.Task, env *taskenv.Env, c *credentials) (err error) {
	if t.g.conf.Secrets == nil {
		return fault.New(fault.Unimplemented, "this node fetches no secrets")
	}
	of := secrets.Task{Namespace: t.g.conf.Alloc.Namespace, Token: c.DefaultToken, Replace: env.Replace}
	pauses := retry.Between(signPauseMin, signPauseMax)
	for notified := false; ; notified = true {
		c.Secrets, err = t.g.conf.Secrets.Fetch(ctx, of, spec.Secrets)
		switch {
		case err == nil:
			return nil
		case !identities.Passing(err):
			return fault.Wrap(fault.Unavailable, err)
		case !notified:
			t.emit(message(eventSlow, "The servers are waited for, which have the secrets of the task: "+err.Error()))
		}
		if !pauses.Wait(ctx) {
			return err
		}
	}
}

// hide returns the error with a text that contains no secret: it becomes an event of the task.
func (c *credentials) hide(err error) error {
	if err == nil || c == nil {
		return err
	}
	text := secrets.Hide(secrets.Hide(err.Error(), c.Secrets), c.Tokens)
	if text == err.Error() {
		return err
	}
	return hiddenError{text, err}
}

// hiddenError has the classes of another error, and not its text.
type hiddenError struct {
	text string
	of   error
}

func (e hiddenError) Error() string { return e.text }

func (e hiddenError) Is(target error) bool { return errors.Is(e.of, target) }

func (e hiddenError) As(target any) bool { return errors.As(e.of, target) }
