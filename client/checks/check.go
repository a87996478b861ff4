package checks

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// provider is the provider of the services whose checks run here.
const provider = "nomad"

// typeScript is the type of checks that run a program in the task. References in its command are those of the running task.
const typeScript = "script"

// check is one check of an allocation, with all references replaced. It is not changed after it is made.
type check struct {
	id string
	// service is the name of the service.
	service string
	// task is the task of the service; empty for a service of the group without one.
	task    string
	spec    api.ServiceCheck
	restart *api.CheckRestart
	// address is host and port; problem is the reason why there is none.
	address, problem string
}

// replacer returns a function that replaces references as the named task would; the name may be empty.
type replacer func(task string) func(text string) string

// list returns the checks of an allocation. The node's address is used for ports without one.
func list(a *api.Allocation, nodeAddress string, in replacer) []*check {
	g := a.Group()
	if g == nil {
		return nil
	}
	var out []*check
	add := func(s *api.Service, task string) {
		if s.Provider != provider {
			return
		}
		for _, spec := range s.Checks {
			out = append(out, resolve(a, s, spec, task, nodeAddress, in))
		}
	}
	for _, s := range g.Services {
		add(s, s.TaskName)
	}
	for _, t := range g.Tasks {
		for _, s := range t.Services {
			add(s, t.Name)
		}
	}
	return out
}

func resolve(a *api.Allocation, s *api.Service, spec api.ServiceCheck, task, nodeAddress string, in replacer) *check {
	if spec.TaskName != "" {
		task = spec.TaskName
	}
	replace := in(task)
	// The rules of jobs ask for a second; jobs of other servers may not.
	spec.Interval, spec.Timeout = max(spec.Interval, time.Second), max(spec.Timeout, time.Second)
	spec.Name, spec.Path, spec.Body = replace(spec.Name), replace(spec.Path), replace(spec.Body)
	spec.Method, spec.Protocol, spec.TLSServerName = replace(spec.Method), replace(spec.Protocol), replace(spec.TLSServerName)
	spec.GRPCService = replace(spec.GRPCService)
	header := make(map[string][]string, len(spec.Header))
	for name, values := range spec.Header {
		for _, v := range values {
			header[replace(name)] = append(header[replace(name)], replace(v))
		}
	}
	spec.Header = header
	c := &check{service: replace(s.Name), task: task, spec: spec, restart: spec.CheckRestart}
	if c.restart == nil {
		c.restart = s.CheckRestart
	}
	label := spec.PortLabel
	if label == "" {
		label = s.PortLabel
	}
	if spec.Type != typeScript {
		c.address, c.problem = endpoint(a, task, replace(label), replace(s.Address), nodeAddress, cmp.Or(spec.AddressMode, s.AddressMode))
	}
	c.id = c.hash(a)
	return c
}

// hash returns the id of the check: a changed check is another one.
func (c *check) hash(a *api.Allocation) string {
	text, err := json.Marshal([]any{a.ID, a.TaskGroup, c.service, c.task, c.spec, c.restart, c.address})
	if err != nil {
		text = []byte(a.ID + c.service + c.spec.Name)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// endpoint returns the address of a port, which is given by its label or its number, or the reason why there is none.
func endpoint(a *api.Allocation, task, label, literal, nodeAddress, mode string) (address, problem string) {
	if label == "" {
		return "", "the service and the check have no port"
	}
	host, port := nodeAddress, 0
	own := mode == api.AddressModeAlloc || mode == api.AddressModeAlloc6
	if own {
		host = a.OwnAddress(mode)
	}
	if p := a.Port(task, label); p != nil && own {
		port = p.Inside()
	} else if p != nil {
		host, port = p.HostIP, p.Value
	} else if number, err := strconv.ParseUint(label, 10, 16); err == nil && number > 0 {
		port = int(number)
	} else {
		return "", "port " + strconv.Quote(label) + " is not a port of the allocation"
	}
	if literal != "" {
		host = literal
	}
	if host == "" {
		return "", "there is no address of mode " + cmp.Or(mode, "host")
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(port)), ""
}
