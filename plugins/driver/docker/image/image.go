package image

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/hashicorp/go-hclog"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/config"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/engine"
)

const (
	// askMax bounds a question to the engine, removeMax the removal of an image.
	askMax    = 30 * time.Second
	removeMax = 5 * time.Minute
	// progressPeriod is the time between two events about the progress of a pull.
	progressPeriod = 2 * time.Minute
)

// Store keeps the images that tasks use. Use New.
type Store struct {
	plugin *config.Plugin
	engine *client.Client
	log    hclog.Logger
	// progress is progressPeriod, but in tests.
	progress time.Duration

	mu    sync.Mutex
	pulls map[string]*pull
	// users are the tasks that use an image, by its id.
	users map[string]map[string]bool
	// names are those by which tasks got an image, by its id.
	names  map[string]map[string]bool
	timers map[string]*time.Timer
	// removals are closed when the removal of an image has ended.
	removals map[string]chan struct{}
	closed   bool
}

// New makes a store.
func New(plugin *config.Plugin, engine *client.Client, log hclog.Logger) *Store {
	return &Store{
		plugin: plugin, engine: engine, log: log, progress: progressPeriod, pulls: map[string]*pull{}, users: map[string]map[string]bool{}, names: map[string]map[string]bool{},
		timers: map[string]*time.Timer{}, removals: map[string]chan struct{}{},
	}
}

// Ensure returns the id of the image of a task, which it loads or pulls when it has to. The image is not removed before
// the task is released.
func (s *Store) Ensure(ctx context.Context, t *driver.Task, c *config.Task) (string, error) {
	name, err := parse(c.Image)
	if err != nil {
		return "", err
	}
	for again := true; ; {
		id, err := s.get(ctx, t, c, name)
		if again && errors.Is(err, fault.NotFound) { // a removal that was under way has taken it after the pull
			again = false
			continue
		}
		if err != nil {
			return "", err
		}
		wait := s.use(id, t.ID, name.String())
		if wait == nil {
			return id, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// parse reads the name of an image; a prefix that some job files have is cut.
func parse(image string) (reference.Named, error) {
	short := image
	for _, prefix := range []string{"docker://", "docker:", "https://"} {
		short = strings.TrimPrefix(short, prefix)
	}
	name, err := reference.ParseNormalizedNamed(short)
	if err != nil {
		return nil, fault.New(fault.Invalid, "image %q: %w", image, err)
	}
	return reference.TagNameOnly(name), nil
}

func (s *Store) get(ctx context.Context, t *driver.Task, c *config.Task, name reference.Named) (string, error) {
	if c.Load != "" {
		if err := s.load(ctx, t, c.Load); err != nil {
			return "", err
		}
		id, err := s.find(ctx, name)
		if errors.Is(err, fault.NotFound) {
			err = fault.New(fault.Invalid, "the archive %q has no image %q", c.Load, c.Image)
		}
		return id, err
	}
	if tag, ok := name.(reference.Tagged); !c.ForcePull && !(ok && tag.Tag() == "latest") {
		if id, err := s.find(ctx, name); !errors.Is(err, fault.NotFound) {
			return id, err
		}
	}
	auth, err := s.auth(ctx, c, name)
	if err != nil {
		return "", err
	}
	timeout := s.plugin.ImagePullTimeout
	if c.ImagePullTimeout > 0 {
		timeout = c.ImagePullTimeout
	}
	return s.pull(ctx, name, auth, timeout, t.Event)
}

// find returns the id of an image that the engine has.
func (s *Store) find(ctx context.Context, name reference.Named) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	found, err := s.engine.ImageInspect(ctx, name.String())
	if err != nil {
		return "", engine.Error(fmt.Sprintf("look for image %q", reference.FamiliarString(name)), err)
	}
	return found.ID, nil
}

// load gives the engine an archive of the task's directory.
func (s *Store) load(ctx context.Context, t *driver.Task, name string) error {
	what := fmt.Sprintf("load image from %q", name)
	root, err := os.OpenRoot(t.Dir)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer root.Close()
	f, err := root.Open(filepath.Join("local", name))
	if errors.Is(err, os.ErrNotExist) {
		f, err = root.Open(name)
	}
	if err != nil {
		return fault.New(fault.Invalid, "%s: %w", what, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return fault.New(fault.Invalid, "%s: it is not a regular file", what)
	}
	ctx, cancel := context.WithTimeout(ctx, s.plugin.ImagePullTimeout)
	defer cancel()
	reply, err := s.engine.ImageLoad(ctx, f)
	if err != nil {
		return engine.Error(what, err)
	}
	defer reply.Close()
	return readMessages(what, reply, func(message) {})
}

// Use notes that a task uses an image that the engine has.
func (s *Store) Use(id, task string) { s.use(id, task, "") }

// use notes that a task uses an image, unless that is being removed: then it returns a channel that is closed after that.
func (s *Store) use(id, task, name string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait, removing := s.removals[id]; removing {
		return wait
	}
	if s.users[id] == nil {
		s.users[id] = map[string]bool{}
	}
	s.users[id][task] = true
	if name != "" {
		if s.names[id] == nil {
			s.names[id] = map[string]bool{}
		}
		s.names[id][name] = true
	}
	if timer := s.timers[id]; timer != nil {
		timer.Stop()
		delete(s.timers, id)
	}
	return nil
}

// Release notes that a task uses its image no more.
func (s *Store) Release(task string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, users := range s.users {
		if !users[task] {
			continue
		}
		delete(users, task)
		if len(users) > 0 {
			continue
		}
		delete(s.users, id)
		if s.plugin.GC.Image && !s.closed {
			s.timers[id] = time.AfterFunc(s.plugin.GC.ImageDelay, func() { s.remove(id) })
		}
	}
}

// remove removes an image that no task uses. What the engine has against that, such as containers of others, is no error.
func (s *Store) remove(id string) {
	s.mu.Lock()
	if len(s.users[id]) > 0 || s.timers[id] == nil || s.closed {
		s.mu.Unlock()
		return
	}
	delete(s.timers, id)
	done := make(chan struct{})
	s.removals[id] = done
	names := slices.Sorted(maps.Keys(s.names[id]))
	delete(s.names, id)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), removeMax)
	defer cancel()
	for _, name := range s.removable(ctx, id, names) {
		// Without force: it stays when others have named it, or have containers of it.
		_, err := s.engine.ImageRemove(ctx, name, client.ImageRemoveOptions{PruneChildren: true})
		switch {
		case err == nil:
			s.log.Debug("removed image", "image", name, "id", id)
		case !errdefs.IsNotFound(err):
			s.log.Info("image is kept", "image", name, "id", id, "error", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.removals, id)
	close(done)
}

// removable lists by what an image is removed: the names that tasks got it by and that have not moved to another one since;
// its id when it has no name, or when an earlier agent process got it.
func (s *Store) removable(ctx context.Context, id string, names []string) []string {
	found, err := s.engine.ImageInspect(ctx, id)
	if err != nil {
		return nil
	}
	if len(names) == 0 || len(found.RepoTags) == 0 {
		return []string{id}
	}
	return slices.DeleteFunc(names, func(name string) bool {
		now, err := s.engine.ImageInspect(ctx, name)
		return err != nil || now.ID != id
	})
}

// Close stops the collection of images.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for id, timer := range s.timers {
		timer.Stop()
		delete(s.timers, id)
	}
}
