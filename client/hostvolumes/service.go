package hostvolumes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// Bucket keeps the records of volumes.
type Bucket interface {
	Put(key string, value []byte) error
	Delete(key string) error
	All() (map[string][]byte, error)
}

// Config is what the service needs.
type Config struct {
	// Dir is where built-in plugins make volumes; PluginDir has the executables.
	Dir, PluginDir string
	// Static are the volumes of the configuration of the node.
	Static  map[string]*api.HostVolumeInfo
	Records Bucket
	// Changed takes over the volumes that the node offers, with those of the configuration.
	Changed func(map[string]*api.HostVolumeInfo)
	// NodeEvent shows users what happened to a volume.
	NodeEvent func(*api.NodeEvent)
	Log       hclog.Logger
}

// deletedMax is how many volumes that were deleted are remembered.
const deletedMax = 10_000

// Service has the dynamic host volumes of a node.
type Service struct {
	conf Config
	mu   sync.Mutex
	// volumes are the recorded ones, by id.
	volumes map[string]*volume
	// busy has the volumes that a call is about; a channel is closed when its call ends.
	busy    map[string]chan struct{}
	deleted map[string]bool
	// restored is closed when all volumes of an earlier process were tried.
	restored chan struct{}
}

// volume is a recorded volume, which has its path and capacity.
type volume struct {
	*api.HostVolume
	// offered is set while jobs may use it; err is why they may not.
	offered bool
	err     error
}

// New makes the service and reads the records.
func New(c Config) (*Service, error) {
	s := &Service{conf: c, volumes: map[string]*volume{}, busy: map[string]chan struct{}{}, deleted: map[string]bool{}, restored: make(chan struct{})}
	records, err := c.Records.All()
	if err != nil {
		return nil, fmt.Errorf("read the records of host volumes: %w", err)
	}
	for id, b := range records {
		v := &api.HostVolume{}
		if _, err := v.UnmarshalMsg(b); err != nil {
			c.Log.Error("the record of a host volume cannot be read: it is not offered", "volume", id, "error", err)
			continue
		}
		s.volumes[id] = &volume{HostVolume: v, err: fault.New(fault.Unavailable, "it is not restored yet")}
	}
	return s, nil
}

// Handlers are the methods that servers call.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{wire.NodeHostVolumeCreate.Handle(s.Create), wire.NodeHostVolumeDelete.Handle(s.Delete)}
}

// Run restores the volumes of an earlier process. One that fails is tried again, less and less often.
func (s *Service) Run(ctx context.Context) error {
	s.mu.Lock()
	ids := slices.Sorted(maps.Keys(s.volumes))
	s.mu.Unlock()
	for pause := restoreFirst; ; pause = min(2*pause, restoreMax) {
		ids = s.restore(ctx, ids)
		select {
		case <-s.restored:
		default:
			close(s.restored)
		}
		if len(ids) == 0 {
			<-ctx.Done()
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// Restored is closed when all volumes of an earlier process were tried once.
func (s *Service) Restored() <-chan struct{} { return s.restored }

const (
	restoreFirst = 5 * time.Second
	restoreMax   = 5 * time.Minute
	// restoresMax is how many volumes are restored at once.
	restoresMax = 8
)

// restore restores volumes and returns those that failed.
func (s *Service) restore(ctx context.Context, ids []string) (failed []string) {
	var all sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, restoresMax)
	for _, id := range ids {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := s.restoreOne(ctx, id); err != nil && ctx.Err() == nil {
				s.conf.Log.Error("restore a host volume: it is not offered", "volume", id, "error", err)
				mu.Lock()
				failed = append(failed, id)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	s.report()
	return failed
}

func (s *Service) restoreOne(ctx context.Context, id string) error {
	leave, err := s.enter(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	s.mu.Lock()
	v := s.volumes[id]
	s.mu.Unlock()
	if v == nil || v.offered {
		return nil
	}
	m, err := s.make(ctx, v.HostVolume, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.volumes[id] != v {
		return nil
	}
	next := *v
	next.offered, next.err = err == nil, err
	if err == nil {
		c := *v.HostVolume
		c.HostPath, c.CapacityBytes = m.path, m.bytes
		next.HostVolume = &c
	} else if v.err == nil || v.err.Error() != err.Error() {
		s.conf.NodeEvent(&api.NodeEvent{Subsystem: "Storage", Message: fmt.Sprintf("host volume %s is not restored: %v", v.Name, err), Timestamp: time.Now()})
	}
	s.volumes[id] = &next
	return err
}

// make makes the volume by its plugin, or looks at the directory of a registered one.
func (s *Service) make(ctx context.Context, v *api.HostVolume, fresh bool) (m made, err error) {
	if v.Registered {
		st, err := os.Stat(v.HostPath)
		switch {
		case err != nil:
			return m, fault.New(fault.Invalid, "host_path: %w: make the directory on the node first", err)
		case !st.IsDir():
			return m, fault.New(fault.Invalid, "host_path: %s is not a directory", v.HostPath)
		}
		return made{path: v.HostPath}, nil
	}
	p, err := s.plugin(v)
	if err != nil {
		return m, err
	}
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	if m, err = p.create(ctx, v, fresh); err == nil {
		err = m.checked(v)
	}
	if err != nil && fresh {
		undo, end := context.WithTimeout(context.WithoutCancel(ctx), callMax/4)
		defer end()
		if left := p.remove(undo, v); left != nil {
			s.conf.Log.Warn("remove what is left of a host volume that failed", "volume", v.ID, "error", left)
		}
	}
	return m, err
}

// Create makes or registers the volume, or finds that it exists and takes over its capabilities.
func (s *Service) Create(ctx context.Context, r *api.NodeHostVolumeRequest) (*api.NodeHostVolumeResponse, error) {
	if err := valid(r); err != nil {
		return nil, err
	}
	leave, err := s.enter(ctx, r.Volume.ID)
	if err != nil {
		return nil, err
	}
	defer leave()
	v := *r.Volume
	fresh, err := s.welcome(&v)
	if err != nil {
		return nil, err
	}
	m, err := s.make(ctx, &v, fresh)
	if err != nil {
		return nil, err
	}
	v.HostPath, v.CapacityBytes = m.path, m.bytes
	record, err := v.MarshalMsg(nil)
	if err == nil {
		err = s.conf.Records.Put(v.ID, record)
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "record the host volume: %w", err)
	}
	s.mu.Lock()
	s.volumes[v.ID] = &volume{HostVolume: &v, offered: true}
	s.mu.Unlock()
	s.report()
	s.conf.Log.Info("host volume is ready", "volume", v.ID, "name", v.Name, "plugin", v.PluginID, "path", v.HostPath)
	return &api.NodeHostVolumeResponse{HostPath: v.HostPath, CapacityBytes: v.CapacityBytes}, nil
}

func valid(r *api.NodeHostVolumeRequest) error {
	if r.Volume == nil {
		return fault.New(fault.Invalid, "missing volume definition")
	}
	if u, err := uuid.Parse(r.Volume.ID); err != nil || u.String() != r.Volume.ID {
		return fault.New(fault.Invalid, "%.60q is not the id of a host volume", r.Volume.ID)
	}
	return nil
}

// welcome reports whether the volume is new here, or refuses it.
func (s *Service) welcome(v *api.HostVolume) (fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleted[v.ID] {
		return false, fault.New(fault.Conflict, "host volume %s was deleted on this node", v.ID)
	}
	if s.conf.Static[v.Name] != nil {
		return false, fault.New(fault.Conflict, "the configuration of the node has a host volume %q", v.Name)
	}
	for id, o := range s.volumes {
		if o.Name == v.Name && id != v.ID {
			return false, fault.New(fault.Conflict, "the node has host volume %q already, with the id %s: delete that first", v.Name, id)
		}
	}
	known := s.volumes[v.ID]
	if known != nil && requested(v) < known.CapacityBytes && v.PluginID == "quota" {
		return false, fault.New(fault.Invalid, "the volume has %d bytes, and does not shrink to %d", known.CapacityBytes, requested(v))
	}
	return known == nil, nil
}

// Delete deletes the volume; one that the node does not know is deleted as the request describes it.
func (s *Service) Delete(ctx context.Context, r *api.NodeHostVolumeRequest) (*api.Empty, error) {
	if err := valid(r); err != nil {
		return nil, err
	}
	leave, err := s.enter(ctx, r.Volume.ID)
	if err != nil {
		return nil, err
	}
	defer leave()
	v := r.Volume
	s.mu.Lock()
	if known := s.volumes[v.ID]; known != nil {
		v = known.HostVolume
		s.volumes[v.ID] = &volume{HostVolume: v, err: fault.New(fault.Unavailable, "it is being deleted")}
	}
	s.mu.Unlock()
	s.report()
	if !v.Registered {
		p, err := s.plugin(v)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, callMax)
		defer cancel()
		if err := p.remove(ctx, v); err != nil {
			return nil, err
		}
	}
	if err := s.conf.Records.Delete(v.ID); err != nil {
		return nil, fault.New(fault.Unavailable, "forget the host volume: %w", err)
	}
	s.mu.Lock()
	if len(s.deleted) >= deletedMax {
		clear(s.deleted)
	}
	s.deleted[v.ID] = true
	delete(s.volumes, v.ID)
	s.mu.Unlock()
	s.conf.Log.Info("host volume is deleted", "volume", v.ID, "name", v.Name)
	return &api.Empty{}, nil
}

// enter waits until no other call is about the volume.
func (s *Service) enter(ctx context.Context, id string) (leave func(), err error) {
	for {
		s.mu.Lock()
		other := s.busy[id]
		if other == nil {
			mine := make(chan struct{})
			s.busy[id] = mine
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.busy, id)
				s.mu.Unlock()
				close(mine)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fault.New(fault.Unavailable, "another call about host volume %s has not ended: %w", id, ctx.Err())
		}
	}
}

// report shows what the node offers.
func (s *Service) report() {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(s.conf.Static)
	if all == nil {
		all = map[string]*api.HostVolumeInfo{}
	}
	for _, v := range s.volumes {
		if v.offered && all[v.Name] == nil {
			all[v.Name] = v.info()
		}
	}
	s.conf.Changed(all)
}

func (v *volume) info() *api.HostVolumeInfo {
	return &api.HostVolumeInfo{
		Path: v.HostPath, ID: v.ID, Namespace: v.Namespace, Capabilities: v.RequestedCapabilities, CapacityBytes: v.CapacityBytes,
	}
}

// Find returns a volume by its name, for an allocation of the namespace. It waits while volumes of an earlier process are restored.
func (s *Service) Find(ctx context.Context, namespace, name string) (*api.HostVolumeInfo, error) {
	if v := s.conf.Static[name]; v != nil {
		return v, nil
	}
	select {
	case <-s.restored:
	case <-ctx.Done():
		return nil, errors.Join(fault.New(fault.Unavailable, "host volume %q: the volumes of the node are not restored yet", name), ctx.Err())
	}
	return s.find(namespace, name, false)
}

// Adopt returns a volume that tasks of an earlier process have mounted.
func (s *Service) Adopt(namespace, name string) (*api.HostVolumeInfo, error) {
	if v := s.conf.Static[name]; v != nil {
		return v, nil
	}
	return s.find(namespace, name, true)
}

func (s *Service) find(namespace, name string, mounted bool) (*api.HostVolumeInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.volumes {
		switch {
		case v.Name != name || v.Namespace != namespace:
		case v.offered || mounted:
			return v.info(), nil
		default:
			return nil, fmt.Errorf("host volume %q: %w", name, v.err)
		}
	}
	return nil, fault.New(fault.NotFound, "this node has no host volume %q", name)
}
