package client

import (
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker"
	"github.com/open-nomad/open-nomad/plugins/driver/exec"
	"github.com/open-nomad/open-nomad/plugins/driver/mock"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
)

// drivers makes the task drivers of the node by their names.
func (c *Config) drivers() map[string]*adopted {
	raw := c.RawExec
	if v := c.Options[optionRawExec]; v == "1" || v == "true" {
		raw.Enabled = true
	}
	list := append([]driver.Driver{rawexec.New(raw, c.Log)}, c.Drivers...)
	if c.Exec != nil {
		list = append(list, exec.New(*c.Exec, c.Log))
	}
	if c.Docker != nil {
		list = append(list, docker.New(*c.Docker, c.Log))
	}
	if c.Mock {
		list = append(list, mock.New(c.Log))
	}
	allow, deny := names(c.Options[optionAllow]), names(c.Options[optionDeny])
	denied, checked := c.option(optionUsers, usersDenied), c.option(optionCheckedUsers, driversChecked)
	out := map[string]*adopted{}
	for _, d := range list {
		if name := d.Name(); (len(allow) == 0 || allow[name]) && !deny[name] {
			out[name] = &adopted{Driver: d, answers: map[string]error{}}
			if checked[name] {
				out[name].denied = denied
			}
		}
	}
	return out
}

// driver finds a task driver.
func (c *Client) driver(name string) (driver.Driver, error) {
	d, ok := c.drivers[name]
	if !ok {
		return nil, fault.New(fault.Invalid, "this node has no task driver %q", name)
	}
	return d, nil
}
