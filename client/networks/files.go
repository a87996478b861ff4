package networks

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Files of the host that tasks of an allocation may see another version of. A node that runs systemd-resolved lists a resolver of
// its loopback interface in the first, which allocations do not reach, and the resolvers behind it in the second.
const (
	hostsFile    = "/etc/hosts"
	resolvFile   = "/etc/resolv.conf"
	resolvBehind = "/run/systemd/resolve/resolv.conf"
)

// File is a file that replaces one of the host for the tasks of an allocation.
type File struct {
	// Path is where the file is; At is where tasks see it, which is no symbolic link of the host.
	Path, At string
}

func (s *Service) filesDir(allocID string) string {
	return filepath.Join(s.conf.Dir, "files", s.conf.NodeID, filepath.Base(allocID))
}

// Files returns the files that tasks of the allocation see in place of those of the host.
func (s *Service) Files(a *api.Allocation) (files []File) {
	for _, at := range []string{hostsFile, resolvFile} {
		path := filepath.Join(s.filesDir(a.ID), filepath.Base(at))
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		if target, err := filepath.EvalSymlinks(at); err == nil {
			at = target
		}
		files = append(files, File{Path: path, At: at})
	}
	return files
}

// Hostname returns the host name of the tasks of the allocation; empty for that of the host.
func (s *Service) Hostname(a *api.Allocation) string {
	if g := a.Group(); g != nil && (modeOf(a) == modeBridge || isCNI(a)) {
		return g.Networks[0].Hostname
	}
	return ""
}

// writeFiles writes the files of an allocation with addresses; dns is nil for the resolvers of the host.
func (s *Service) writeFiles(a *api.Allocation, ips []netip.Addr, dns *api.DNSConfig) error {
	contents := map[string]string{}
	if name := s.Hostname(a); name != "" {
		contents[hostsFile] = hosts(name, ips)
	}
	if text := resolvers(dns, readLines(resolvFile), readLines(resolvBehind)); text != "" {
		contents[resolvFile] = text
	}
	dir := s.filesDir(a.ID)
	for at, text := range contents {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make directory of %s: %w", at, err)
		}
		path := filepath.Join(dir, filepath.Base(at))
		if b, err := os.ReadFile(path); err == nil && bytes.Equal(b, []byte(text)) {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // all users of a task read it
			return fmt.Errorf("write %s of the allocation: %w", at, err)
		}
	}
	return nil
}

func (s *Service) removeFiles(allocID string) error {
	if err := os.RemoveAll(s.filesDir(allocID)); err != nil {
		return fmt.Errorf("remove files of the network: %w", err)
	}
	return nil
}

func hosts(name string, ips []netip.Addr) string {
	out := "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
	for _, ip := range ips {
		out += ip.String() + " " + name + "\n"
	}
	return out
}

func readLines(path string) []string {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) || len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// resolvers returns the content of resolv.conf for an allocation; empty means that the file of the host serves. Parts that the
// dns block does not set are those of the host. An allocation does not reach a resolver on the loopback interface of the host.
func resolvers(dns *api.DNSConfig, host, behind []string) string {
	if slices.ContainsFunc(host, onLoopback) && slices.ContainsFunc(behind, func(line string) bool { return keyOf(line) == "nameserver" && !onLoopback(line) }) {
		host = behind
		if dns == nil {
			return strings.Join(host, "\n") + "\n"
		}
	}
	if dns == nil {
		return ""
	}
	var out []string
	keep := func(given bool, keys ...string) {
		for _, line := range host {
			if !given && slices.Contains(keys, keyOf(line)) {
				out = append(out, line)
			}
		}
	}
	for _, ip := range dns.Servers {
		out = append(out, "nameserver "+ip)
	}
	keep(len(dns.Servers) > 0, "nameserver")
	if len(dns.Searches) > 0 {
		out = append(out, "search "+strings.Join(dns.Searches, " "))
	}
	keep(len(dns.Searches) > 0, "search", "domain")
	if len(dns.Options) > 0 {
		out = append(out, "options "+strings.Join(dns.Options, " "))
	}
	keep(len(dns.Options) > 0, "options")
	return strings.Join(out, "\n") + "\n"
}

func keyOf(line string) string {
	if fields := strings.Fields(line); len(fields) > 1 {
		return fields[0]
	}
	return ""
}

// onLoopback reports whether a line names a resolver on the loopback interface.
func onLoopback(line string) bool {
	if keyOf(line) != "nameserver" {
		return false
	}
	ip, err := netip.ParseAddr(strings.Fields(line)[1])
	return err == nil && ip.IsLoopback()
}
