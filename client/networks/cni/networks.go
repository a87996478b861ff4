package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/utils"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/open-nomad/open-nomad/api/fault"
)

const (
	// versionWait bounds the calls that find the versions of all plugins.
	versionWait = 10 * time.Second
	// parallelMax is how many plugins are called at once.
	parallelMax = 4
)

// Networks returns the networks of the configuration directory by name. Files with errors are in the error and leave the
// others as they are; of two networks with one name the first file counts.
func (s *Service) Networks() (map[string]*libcni.NetworkConfigList, error) {
	files, err := libcni.ConfFiles(s.conf.ConfigDir, []string{".conf", ".conflist", ".json"})
	if err != nil {
		return nil, fmt.Errorf("read client.cni_config_dir: %w", err)
	}
	slices.Sort(files)
	found, errs := map[string]*libcni.NetworkConfigList{}, []error(nil)
	for _, f := range files {
		list, err := load(f)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("CNI network in %s: %w", f, err))
		case found[list.Name] != nil:
			errs = append(errs, fault.New(fault.Conflict, "CNI network in %s: an earlier file has a network %q", f, list.Name))
		default:
			found[list.Name] = list
		}
	}
	return found, errors.Join(errs...)
}

func load(file string) (*libcni.NetworkConfigList, error) {
	b, err := os.ReadFile(file)
	if err == nil && filepath.Ext(file) != ".conflist" {
		b, err = listOf(b)
	}
	if err != nil {
		return nil, err
	}
	list, err := libcni.NetworkConfFromBytes(b)
	if err != nil {
		return nil, err
	}
	if err := utils.ValidateNetworkName(list.Name); err != nil {
		return nil, err
	}
	return list, nil
}

// listOf makes the configuration of a network of one plugin.
func listOf(plugin []byte) ([]byte, error) {
	var head struct {
		Name    string `json:"name"`
		Version string `json:"cniVersion,omitempty"`
	}
	if err := json.Unmarshal(plugin, &head); err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Name    string            `json:"name"`
		Version string            `json:"cniVersion,omitempty"`
		Plugins []json.RawMessage `json:"plugins"`
	}{head.Name, head.Version, []json.RawMessage{plugin}})
}

// find returns a network by its name.
func (s *Service) find(name string) (*libcni.NetworkConfigList, error) {
	all, err := s.Networks()
	if list := all[name]; list != nil {
		return list, nil
	}
	if err != nil {
		return nil, fault.New(fault.NotFound, "CNI network %q is not in client.cni_config_dir (%s): %w", name, s.conf.ConfigDir, err)
	}
	return nil, fault.New(fault.NotFound, "CNI network %q is not in client.cni_config_dir (%s)", name, s.conf.ConfigDir)
}

// Versions returns the newest version of the CNI specification that each plugin of the node supports. Programs that do not
// reply to the question for it are not plugins.
func (s *Service) Versions(ctx context.Context) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, versionWait)
	defer cancel()
	names := map[string]bool{}
	for _, dir := range s.conf.Path {
		files, _ := os.ReadDir(dir) // most of the directories do not exist
		for _, f := range files {
			if i, err := os.Stat(filepath.Join(dir, f.Name())); err == nil && i.Mode().IsRegular() && i.Mode()&0o111 != 0 {
				names[f.Name()] = true
			}
		}
	}
	plugins := libcni.NewCNIConfigWithCacheDir(s.conf.Path, s.conf.RecordDir, &runner{})
	var mu sync.Mutex
	var calls sync.WaitGroup
	slots, found := make(chan struct{}, parallelMax), map[string]string{}
	for name := range names {
		slots <- struct{}{}
		calls.Go(func() {
			defer func() { <-slots }()
			info, err := plugins.GetVersionInfo(ctx, name)
			if err != nil {
				s.conf.Log.Debug("program of client.cni_path is no CNI plugin", "name", name, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, v := range info.SupportedVersions() {
				if newer, err := version.GreaterThan(v, found[name]); found[name] == "" || err == nil && newer {
					found[name] = v
				}
			}
		})
	}
	calls.Wait()
	return found
}

// arguments are the arguments in the order of their names. Plugins ignore those that they do not know.
func arguments(args map[string]string) [][2]string {
	all := map[string]string{"IgnoreUnknown": "true"}
	maps.Copy(all, args)
	var out [][2]string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		out = append(out, [2]string{key, all[key]})
	}
	return out
}
