package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/containernetworking/cni/libcni"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Prefix begins the modes of networks that plugins make.
const Prefix = "cni/"

const (
	// callWait bounds a call of all plugins of a network.
	callWait = 30 * time.Second
	// deleteTries is how often one process of the agent tries to delete a network before it leaves that to the next.
	deleteTries   = 3
	interfaceName = "eth0"
)

// Config is the configuration of CNI networks of a node.
type Config struct {
	// Path are the directories of the plugins; ConfigDir contains the configurations of networks.
	Path      []string
	ConfigDir string
	// RecordDir contains a file for each network that was made. It should survive a reboot, after which plugins may still
	// have addresses in use that they recorded.
	RecordDir string
	// Wait bounds a call of all plugins of a network; 0 means 30 s.
	Wait time.Duration
	Log  hclog.Logger
}

// Default returns the configuration of a node that configures nothing.
func Default() Config {
	return Config{Path: []string{"/opt/cni/bin", "/usr/libexec/cni", "/usr/lib/cni"}, ConfigDir: "/opt/cni/config"}
}

// Service makes and deletes CNI networks.
type Service struct {
	conf Config
	// mu guards failures, the number of failed deletions by allocation.
	mu       sync.Mutex
	failures map[string]int
}

// New makes the service; nothing is read or made before it is used.
func New(c Config) *Service {
	if c.Wait == 0 {
		c.Wait = callWait
	}
	return &Service{conf: c, failures: map[string]int{}}
}

// Request asks for the network of an allocation.
type Request struct {
	AllocID string
	// Network is the name of the network; Namespace is the path of the network namespace.
	Network, Namespace string
	// Args are arguments for all plugins, which get them in CNI_ARGS.
	Args map[string]string
	// Capabilities are arguments for the plugins whose configurations ask for them, such as portMappings.
	Capabilities map[string]any
}

// record is what the deletion of a network needs.
type record struct {
	Name, Version, Namespace string
	// Plugins are the configurations of the plugins.
	Plugins      []json.RawMessage
	Args         [][2]string
	Capabilities map[string]any
	// Status is nil until the network is made.
	Status *api.AllocNetworkStatus
}

func (s *Service) file(allocID string) string {
	return filepath.Join(s.conf.RecordDir, filepath.Base(allocID)+".json")
}

func (s *Service) read(allocID string) (*record, error) {
	b, err := os.ReadFile(s.file(allocID))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	r := &record{}
	if err == nil {
		err = json.Unmarshal(b, r)
	}
	if err != nil {
		return nil, fmt.Errorf("read record of CNI network: %w", err)
	}
	return r, nil
}

// write replaces the record at once.
func (s *Service) write(allocID string, r *record) error {
	b, err := json.Marshal(r)
	if err == nil {
		err = os.MkdirAll(s.conf.RecordDir, 0o700)
	}
	temp := s.file(allocID) + ".new"
	if err == nil {
		err = os.WriteFile(temp, b, 0o600)
	}
	if err == nil {
		err = os.Rename(temp, s.file(allocID))
	}
	if err != nil {
		return fmt.Errorf("record CNI network: %w", err)
	}
	return nil
}

// plugins returns the runner of the plugins, what they run for, and their configurations.
func (s *Service) plugins(allocID string, r *record) (*libcni.CNIConfig, *libcni.RuntimeConf, *libcni.NetworkConfigList, error) {
	list := &libcni.NetworkConfigList{Name: r.Name, CNIVersion: r.Version}
	for _, b := range r.Plugins {
		p, err := libcni.NetworkPluginConfFromBytes(b)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("CNI network %q: %w", r.Name, err)
		}
		list.Plugins = append(list.Plugins, p)
	}
	var err error
	if list.Bytes, err = json.Marshal(map[string]any{"name": r.Name, "cniVersion": r.Version, "plugins": r.Plugins}); err != nil {
		return nil, nil, nil, err
	}
	rt := &libcni.RuntimeConf{ContainerID: allocID, NetNS: r.Namespace, IfName: interfaceName, Args: r.Args, CapabilityArgs: r.Capabilities}
	return libcni.NewCNIConfigWithCacheDir(s.conf.Path, s.conf.RecordDir, &runner{}), rt, list, nil
}

// Existing returns the status of the network of an allocation if it is complete.
func (s *Service) Existing(allocID string) (*api.AllocNetworkStatus, error) {
	r, err := s.read(allocID)
	if r == nil || err != nil {
		return nil, err
	}
	return r.Status, nil
}

// Add makes a network in a new namespace, after it deletes what an earlier call left. After an error nothing is left, unless
// plugins fail to delete it: then the record stays.
func (s *Service) Add(ctx context.Context, q Request) (*api.AllocNetworkStatus, error) {
	if err := s.Delete(ctx, q.AllocID); err != nil {
		return nil, err
	}
	list, err := s.find(q.Network)
	if err != nil {
		return nil, err
	}
	r := &record{Name: list.Name, Version: list.CNIVersion, Namespace: q.Namespace, Args: arguments(q.Args), Capabilities: q.Capabilities}
	for _, p := range list.Plugins {
		r.Plugins = append(r.Plugins, p.Bytes)
	}
	if err := s.write(q.AllocID, r); err != nil {
		return nil, err
	}
	if err = s.add(ctx, q.AllocID, r); err != nil {
		err = fault.New(fault.Unavailable, "CNI network %q: %w", q.Network, err)
		if left := s.Delete(context.WithoutCancel(ctx), q.AllocID); left != nil {
			err = fmt.Errorf("%w (%w)", err, left)
		}
		return nil, err
	}
	return r.Status, nil
}

func (s *Service) add(ctx context.Context, allocID string, r *record) error {
	plugins, rt, list, err := s.plugins(allocID, r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.conf.Wait)
	defer cancel()
	result, err := plugins.AddNetworkList(ctx, list, rt)
	if err != nil {
		return err
	}
	made, err := types100.NewResultFromResult(result)
	if err != nil {
		return err
	}
	r.Status = statusOf(made)
	return s.write(allocID, r)
}

// statusOf reads the first interface of the namespace and its addresses; plugins of old versions name no interfaces.
func statusOf(result *types100.Result) *api.AllocNetworkStatus {
	status, index := &api.AllocNetworkStatus{InterfaceName: interfaceName}, -1
	for i, f := range result.Interfaces {
		if f != nil && f.Sandbox != "" {
			status.InterfaceName, index = f.Name, i
			break
		}
	}
	for _, ip := range result.IPs {
		if ip == nil || ip.Interface != nil && index >= 0 && *ip.Interface != index {
			continue
		}
		a, ok := netip.AddrFromSlice(ip.Address.IP)
		a = a.Unmap()
		switch {
		case !ok:
		case a.Is4() && status.Address == "":
			status.Address = a.String()
		case a.Is6() && status.AddressIPv6 == "":
			status.AddressIPv6 = a.String()
		}
	}
	if status.Address == "" { // an allocation with IPv6 only
		status.Address = status.AddressIPv6
	}
	if d := result.DNS; len(d.Nameservers)+len(d.Search)+len(d.Options) > 0 {
		status.DNS = &api.DNSConfig{Servers: d.Nameservers, Searches: d.Search, Options: d.Options}
	}
	return status
}

// Delete removes the network of an allocation with the configuration that made it. It returns nil without record. After some
// failures the record is left to the next process of the agent: the end of an allocation does not wait for a broken plugin.
func (s *Service) Delete(ctx context.Context, allocID string) error {
	r, err := s.read(allocID)
	if err != nil {
		s.conf.Log.Warn("the record of a CNI network is removed, its plugins are not called", "alloc_id", allocID, "error", err)
	}
	if r != nil {
		if err := s.del(ctx, allocID, r); err != nil {
			err = fmt.Errorf("delete CNI network %q: %w", r.Name, err)
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.failures[allocID]++; s.failures[allocID] < deleteTries || ctx.Err() != nil {
				return err
			}
			delete(s.failures, allocID)
			s.conf.Log.Error("leftovers of a CNI network remain until a later start of the agent", "alloc_id", allocID, "error", err)
			return nil
		}
	}
	s.mu.Lock()
	delete(s.failures, allocID)
	s.mu.Unlock()
	if err := os.Remove(s.file(allocID)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove record of CNI network: %w", err)
	}
	return nil
}

func (s *Service) del(ctx context.Context, allocID string, r *record) error {
	plugins, rt, list, err := s.plugins(allocID, r)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(rt.NetNS); err != nil { // as after a reboot: plugins get no namespace that is not there
		rt.NetNS = ""
	}
	ctx, cancel := context.WithTimeout(ctx, s.conf.Wait)
	defer cancel()
	return plugins.DelNetworkList(ctx, list, rt)
}

// Has reports whether something may be left of the network of an allocation.
func (s *Service) Has(allocID string) bool {
	_, err := os.Lstat(s.file(allocID))
	return err == nil
}

// Recorded returns the allocations that have records.
func (s *Service) Recorded() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(s.conf.RecordDir, "*.json"))
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".json")
	}
	return files, err
}
