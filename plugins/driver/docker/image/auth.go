package image

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/registry"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/config"
)

const (
	hubDomain = "docker.io"
	hubServer = "https://index.docker.io/v1/"
	// helperMax bounds the run of a credential helper.
	helperMax = 30 * time.Second
)

// auth finds the account for an image: that of the task, else that which the agent has for the registry. No account is
// no error.
func (s *Store) auth(ctx context.Context, c *config.Task, name reference.Named) (*registry.AuthConfig, error) {
	domain := reference.Domain(name)
	if a := c.Auth; a.Username != "" || a.Password != "" {
		server := a.ServerAddress
		if server == "" {
			server = serverOf(domain)
		}
		return &registry.AuthConfig{Username: a.Username, Password: a.Password, ServerAddress: server}, nil
	}
	var found *registry.AuthConfig
	var err error
	switch {
	case s.plugin.Auth.Config != "":
		found, err = fromFile(ctx, s.plugin.Auth.Config, domain)
	case s.plugin.Auth.Helper != "":
		found, err = fromHelper(ctx, s.plugin.Auth.Helper, serverOf(domain))
	}
	if err != nil && c.AuthSoftFail {
		s.log.Warn("pull without an account", "image", name.String(), "error", err)
		return nil, nil
	}
	return found, err
}

func serverOf(domain string) string {
	if domain == hubDomain {
		return hubServer
	}
	return domain
}

// fromFile finds the account in a config.json of docker.
func fromFile(ctx context.Context, path, domain string) (*registry.AuthConfig, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.New(fault.Invalid, "accounts of registries: %w", err)
	}
	var file struct {
		Auths map[string]struct {
			Auth, Username, Password, IdentityToken string
		} `json:"auths"`
		CredHelpers map[string]string `json:"credHelpers"`
		CredsStore  string            `json:"credsStore"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fault.New(fault.Invalid, "accounts of registries in %s: %w", path, err)
	}
	server := serverOf(domain)
	if helper := file.CredHelpers[domain]; helper != "" {
		return fromHelper(ctx, helper, server)
	}
	for _, key := range []string{server, domain, "https://" + domain, "https://" + domain + "/", "https://" + domain + "/v1/", "https://" + domain + "/v2/", "http://" + domain} {
		a, ok := file.Auths[key]
		if !ok {
			continue
		}
		out := &registry.AuthConfig{Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken, ServerAddress: server}
		if a.Auth != "" {
			pair, err := base64.StdEncoding.DecodeString(a.Auth)
			user, password, ok := strings.Cut(string(pair), ":")
			if err != nil || !ok {
				return nil, fault.New(fault.Invalid, "account of registry %q in %s is malformed", key, path)
			}
			out.Username, out.Password = user, strings.TrimRight(password, "\x00")
		}
		if out.Username != "" || out.IdentityToken != "" {
			return out, nil
		}
	}
	if file.CredsStore != "" {
		return fromHelper(ctx, file.CredsStore, server)
	}
	return nil, nil
}

// fromHelper asks a credential helper for an account.
func fromHelper(ctx context.Context, helper, server string) (*registry.AuthConfig, error) {
	ctx, cancel := context.WithTimeout(ctx, helperMax)
	defer cancel()
	if strings.ContainsRune(helper, '/') {
		return nil, fault.New(fault.Invalid, "credential helper %q is the end of a name docker-credential-*, and no path", helper)
	}
	program := "docker-credential-" + helper
	cmd := exec.CommandContext(ctx, program, "get")
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(server), &out, &errs
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(out.String() + errs.String())
		if strings.Contains(said, "credentials not found") {
			return nil, nil
		}
		if errors.Is(err, exec.ErrNotFound) {
			return nil, fault.New(fault.Invalid, "credential helper: %w", err)
		}
		return nil, fmt.Errorf("credential helper %s: %w: %.200s", program, err, said)
	}
	var got struct{ Username, Secret string }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		return nil, fault.New(fault.Invalid, "credential helper %s: %w", program, err)
	}
	if got.Username == "<token>" {
		return &registry.AuthConfig{IdentityToken: got.Secret, ServerAddress: server}, nil
	}
	return &registry.AuthConfig{Username: got.Username, Password: got.Secret, ServerAddress: server}, nil
}
