package secrets

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/ids"
	"github.com/open-nomad/open-nomad/api/wire"
)

// Builtin is the provider that reads variables.
const Builtin = "nomad"

// builtinVersion is the version in the node's attributes.
const builtinVersion = "1.0.0"

// readWait limits one call to the servers.
const readWait = 5 * time.Second

// Fetcher fetches secrets on one node.
type Fetcher struct {
	Servers wire.Caller
	Region  string
	// Dir contains the executables of providers.
	Dir string
}

// Task is for whom secrets are fetched.
type Task struct {
	Namespace string
	// Token is the signed default identity of the task.
	Token string
	// Replace fills in the references to the task's environment, in paths, configurations and environments of blocks.
	Replace func(string) string
}

// Fetch returns the values of the blocks by "<name>.<key>". An error of the servers that may pass has their class.
func (f *Fetcher) Fetch(ctx context.Context, of Task, blocks []*api.Secret) (map[string]string, error) {
	out := map[string]string{}
	for _, s := range blocks {
		values, err := f.one(ctx, of, s)
		if err != nil {
			return nil, fmt.Errorf("secret %q from provider %q at path %q: %w", s.Name, s.Provider, s.Path, err)
		}
		for key, value := range values {
			out[s.Name+"."+key] = value
		}
	}
	return out, nil
}

func (f *Fetcher) one(ctx context.Context, of Task, s *api.Secret) (map[string]string, error) {
	path := of.Replace(s.Path)
	switch s.Provider {
	case Builtin:
		namespace, err := namespaceOf(s.Config)
		if err != nil {
			return nil, err
		}
		if namespace = of.Replace(namespace); namespace == "" {
			namespace = of.Namespace
		}
		return f.variable(ctx, namespace, path, of.Token)
	case "vault":
		return nil, fault.New(fault.Unimplemented, "the provider vault is not supported: use a variable or an executable provider")
	}
	env := make([]string, 0, len(s.Env))
	for name, value := range s.Env {
		if err := ids.CheckProviderEnv(name); err != nil {
			return nil, fault.Wrap(fault.Invalid, err)
		}
		env = append(env, name+"="+of.Replace(value))
	}
	return fetch(ctx, f.Dir, s.Provider, path, env)
}

// namespaceOf returns the namespace in the config of a block of the built-in provider.
func namespaceOf(config map[string]any) (string, error) {
	for key, value := range config {
		text, ok := value.(string)
		if key != "namespace" || !ok {
			return "", fault.New(fault.Invalid, "config %q is not supported: only namespace is, a string", key)
		}
		return text, nil
	}
	return "", nil
}

func (f *Fetcher) variable(ctx context.Context, namespace, path, token string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	resp, err := wire.VariableGet.Call(ctx, f.Servers, &api.VariableRequest{
		Path: path, QueryOptions: api.QueryOptions{Region: f.Region, Namespace: namespace, AuthToken: token},
	})
	switch {
	case errors.Is(err, fault.Denied):
		return nil, fault.New(fault.Denied, "the identity of the task may not read the variable in namespace %q: %w", namespace, err)
	case err != nil:
		return nil, fmt.Errorf("read the variable: %w", err)
	case resp.Meta == nil:
		return nil, fault.New(fault.NotFound, "there is no such variable in namespace %q: create it with nomad var put", namespace)
	}
	return resp.Items, nil
}
