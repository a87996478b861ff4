package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"github.com/moby/moby/api/pkg/authconfig"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/engine"
)

// pull is one download for all who want it.
type pull struct {
	cancel context.CancelFunc
	done   chan struct{}
	// waiting counts those who want the image; the store's lock guards it.
	waiting int
	// id and err are valid after done is closed.
	id  string
	err error

	mu     sync.Mutex
	layers map[string]layer
}

// layer is how far the download of a part has come.
type layer struct {
	status         string
	current, total int64
}

// message is one that the engine sends during a pull or a load.
type message struct {
	Status   string `json:"status"`
	ID       string `json:"id"`
	Progress struct {
		Current int64 `json:"current"`
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
	Error struct {
		Message string `json:"message"`
	} `json:"errorDetail"`
}

// pull downloads an image, or waits for the download that others have begun, and reports the progress.
func (s *Store) pull(ctx context.Context, name reference.Named, auth *registry.AuthConfig, timeout time.Duration, event func(string)) (string, error) {
	if event == nil {
		event = func(string) {}
	}
	encoded := ""
	if auth != nil {
		var err error
		if encoded, err = authconfig.Encode(*auth); err != nil {
			return "", fmt.Errorf("account of image %q: %w", reference.FamiliarString(name), err)
		}
	}
	p, leave := s.join(name, encoded, timeout)
	defer leave()
	event("Downloading image")
	tick := time.NewTicker(s.progress)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			return p.id, p.err
		case <-tick.C:
			event("Docker image pull progress: " + p.progress())
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// join returns the pull of an image, which it begins when there is none. The pull ends when all have left.
func (s *Store) join(name reference.Named, auth string, timeout time.Duration) (*pull, func()) {
	key := name.String() + "\n" + auth
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pulls[key]
	if p == nil {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		p = &pull{cancel: cancel, done: make(chan struct{}), layers: map[string]layer{}}
		s.pulls[key] = p
		go func() {
			defer cancel()
			id, err := s.download(ctx, p, name, auth, timeout)
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.pulls[key] == p {
				delete(s.pulls, key)
			}
			p.id, p.err = id, err
			close(p.done)
		}()
	}
	p.waiting++
	return p, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if p.waiting--; p.waiting == 0 {
			p.cancel()
			if s.pulls[key] == p {
				delete(s.pulls, key)
			}
		}
	}
}

var errNoProgress = errors.New("no progress")

func (s *Store) download(ctx context.Context, p *pull, name reference.Named, auth string, timeout time.Duration) (string, error) {
	short := reference.FamiliarString(name)
	what := fmt.Sprintf("pull image %q", short)
	began := time.Now()
	active, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	quiet := time.AfterFunc(s.plugin.PullActivity, func() { stop(errNoProgress) })
	defer quiet.Stop()
	reply, err := s.engine.ImagePull(active, name.String(), client.ImagePullOptions{RegistryAuth: auth})
	if err == nil {
		defer reply.Close()
		defer context.AfterFunc(active, func() { _ = reply.Close() })()
		err = readMessages(what, reply, func(m message) {
			if p.note(m) {
				quiet.Reset(s.plugin.PullActivity)
			}
		})
	} else {
		err = engine.Error(what, err)
	}
	switch {
	case errors.Is(context.Cause(active), errNoProgress):
		return "", fault.New(fault.Unavailable, "%s: no progress for %v (pull_activity_timeout)", what, s.plugin.PullActivity)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fault.New(fault.Unavailable, "%s: not done after %v (image_pull_timeout)", what, timeout)
	case err != nil:
		return "", refusal(err)
	}
	s.log.Info("pulled image", "image", short, "took", time.Since(began).Round(time.Millisecond))
	return s.find(ctx, name)
}

// refusal gives an error of a registry its class: what the registry has not, or does not show, is not there a second
// later either.
func refusal(err error) error {
	text := strings.ToLower(err.Error())
	for _, part := range []string{"not found", "manifest unknown", "unauthorized", "denied", "no basic auth credentials", "no matching manifest"} {
		if strings.Contains(text, part) {
			return fault.Wrap(fault.Invalid, errors.New(err.Error()))
		}
	}
	if fault.Of(err) == fault.Internal {
		return fault.Wrap(fault.Unavailable, err)
	}
	return err
}

// readMessages reads what the engine sends until its end, or the error in it.
func readMessages(what string, from io.Reader, each func(message)) error {
	for decoder := json.NewDecoder(from); ; {
		var m message
		err := decoder.Decode(&m)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return engine.Error(what, err)
		case m.Error.Message != "":
			return engine.Error(what, errors.New(m.Error.Message))
		}
		each(m)
	}
}

// note takes up a message, and reports whether the pull has made progress.
func (p *pull) note(m message) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := layer{m.Status, m.Progress.Current, m.Progress.Total}
	if p.layers[m.ID] == now {
		return false
	}
	p.layers[m.ID] = now
	return true
}

// progress describes how far the pull has come.
func (p *pull) progress() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var whole, all int
	var current, total int64
	for id, l := range p.layers {
		if id == "" || strings.HasPrefix(l.status, "Pulling from") {
			continue
		}
		all++
		switch {
		case l.status == "Pull complete" || l.status == "Already exists":
			whole++
		case l.status == "Downloading":
			current, total = current+l.current, total+l.total
		}
	}
	return fmt.Sprintf("Pulled %d/%d layers (%.1f MiB/%.1f MiB of those under way)", whole, all, float64(current)/(1<<20), float64(total)/(1<<20))
}
