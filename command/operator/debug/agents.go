package debug

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
)

// agent is a server or a node, with its folder in the archive.
type agent struct {
	dir          string
	server, node string
}

func (a agent) params(more ...string) url.Values {
	v := url.Values{}
	if a.server != "" {
		v.Set("server_id", a.server)
	} else {
		v.Set("node_id", a.node)
	}
	for i := 0; i+1 < len(more); i += 2 {
		v.Set(more[i], more[i+1])
	}
	return v
}

// agents are those that were chosen.
func (c *capture) agents() (list []agent) {
	for _, m := range c.servers {
		list = append(list, agent{dir: "server/" + fileName(m.Name), server: m.Name})
	}
	for _, n := range c.nodes {
		list = append(list, agent{dir: "client/" + fileName(n.ID), node: n.ID})
	}
	return list
}

// slot waits until one more call to an agent may be made.
func (c *capture) slot(ctx context.Context) (release func(), err error) {
	select {
	case c.slots <- struct{}{}:
		return func() { <-c.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// host captures the description of an agent's host, and the node.
func (c *capture) host(ctx context.Context, a agent) {
	release, err := c.slot(ctx)
	if err != nil {
		c.failed(ctx, a.dir+"/agent-host.json", err)
		return
	}
	defer release()
	c.save(ctx, a.dir+"/agent-host.json", a.params(), "agent", "host")
	if a.node != "" {
		c.save(ctx, a.dir+"/node.json", c.params(), "node", a.node)
	}
}

// profile is one file of each round of profiles.
type profile struct{ file, name, debug string }

// profilesOfRound are taken in each round. They contain no data of the program.
var profilesOfRound = []profile{
	{"profile_%04d.prof", "profile", ""},
	{"trace_%04d.prof", "trace", ""},
	{"goroutine_%04d.prof", "goroutine", ""},
	{"goroutine-debug1_%04d.txt", "goroutine", "1"},
	{"goroutine-debug2_%04d.txt", "goroutine", "2"},
	{"heap_%04d.prof", "heap", ""},
	{"allocs_%04d.prof", "allocs", ""},
	{"threadcreate_%04d.prof", "threadcreate", ""},
}

// profiles takes the profiles of an agent until the capture ends. An agent that refuses or does not respond is not asked for more.
func (c *capture) profiles(ctx, end context.Context, a agent) {
	if c.o.profile == 0 {
		return
	}
	for i := 0; ; i++ {
		for _, p := range profilesOfRound {
			name := a.dir + "/" + fmt.Sprintf(p.file, i)
			body, err := c.profile(ctx, a, p)
			if err != nil {
				c.failed(ctx, name, err)
				return
			}
			c.write(ctx, name, body)
		}
		if c.o.profileEvery == 0 {
			return
		}
		select {
		case <-time.After(c.o.profileEvery):
		case <-end.Done():
			return
		}
	}
}

// profile takes one profile.
func (c *capture) profile(ctx context.Context, a agent, p profile) ([]byte, error) {
	params := a.params()
	if p.debug != "" {
		params.Set("debug", p.debug)
	}
	bound := callMax
	if p.name == "profile" || p.name == "trace" {
		params.Set("seconds", strconv.Itoa(max(1, int(c.o.profile/time.Second))))
		bound += c.o.profile
	}
	release, err := c.slot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	body, _, err := c.read(ctx, bound, []string{"agent", "pprof", p.name}, params)
	return body, err
}

// follow writes the log of an agent until the capture ends.
func (c *capture) follow(end context.Context, a agent) {
	name := a.dir + "/monitor.log"
	body, err := c.s.Monitor(end, rest.MonitorOptions{ServerID: a.server, NodeID: a.node, Level: c.o.level, IncludeLocation: c.o.location})
	if err != nil {
		c.failed(end, name, err)
		return
	}
	defer body.Close()
	if err := c.copyLog(name, body); err != nil && end.Err() == nil {
		c.failed(end, name, err)
	}
}

// copyLog writes lines to a file, up to logMax bytes.
func (c *capture) copyLog(name string, in io.Reader) error {
	f, err := c.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriter(f)
	defer out.Flush()
	size := 0
	for lines := bufio.NewReaderSize(in, 64<<10); ; {
		line, err := lines.ReadSlice('\n')
		if size += len(line); size > logMax {
			return fault.New(fault.TooLarge, "the log has more than %d MiB; the file contains its begin", logMax>>20)
		}
		if _, werr := out.WriteString(c.hide(string(line))); werr != nil {
			return werr
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// exports captures what an agent wrote to its log before.
func (c *capture) exports(ctx context.Context, a agent) {
	read := func(name string, o rest.ExportOptions) {
		ctx, cancel := context.WithTimeout(ctx, graceMax)
		defer cancel()
		o.ServerID, o.NodeID = a.server, a.node
		body, err := c.s.MonitorExport(ctx, o)
		if err == nil {
			err = c.copyLog(a.dir+"/"+name, body)
			_ = body.Close()
		}
		if err != nil {
			c.failed(ctx, a.dir+"/"+name, err)
		}
	}
	if c.o.logFile {
		read("monitor_export.log", rest.ExportOptions{OnDisk: true})
	}
	if c.o.lookback > 0 {
		read("journal_export.log", rest.ExportOptions{ServiceName: "nomad", Since: c.o.lookback})
	}
}

// events captures the event stream, one event per line.
func (c *capture) events(end context.Context) {
	const name = "cluster/eventstream.json"
	f, err := c.open(name)
	if err != nil {
		c.failed(end, name, err)
		return
	}
	defer f.Close()
	size := 0
	q := rest.Query{Index: c.o.eventIndex, Namespace: c.everywhere().Get("namespace")}
	err = c.s.Events(end, c.o.topics, q, func(line *api.Events) error {
		for _, e := range line.Events {
			body, err := json.Marshal(e)
			if err == nil {
				body, err = redact(body, true)
			}
			var one bytes.Buffer
			if err == nil {
				err = json.Compact(&one, body)
			}
			if err != nil {
				return err
			}
			if size += one.Len(); size > logMax {
				return fault.New(fault.TooLarge, "there are more than %d MiB of events; the file contains the first", logMax>>20)
			}
			if _, err := f.WriteString(c.hide(strings.TrimSpace(one.String())) + "\n"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && end.Err() == nil {
		c.failed(end, name, err)
	}
}
