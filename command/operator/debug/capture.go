package debug

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/command/session"
)

const (
	// volumesMax bounds the volumes of which details and timelines are captured.
	volumesMax = 500
	// callsMax bounds the calls to agents at a time, followedMax the followed logs.
	callsMax, followedMax = 8, 48
	// graceMax is how long calls that have begun may continue after the end of the capture.
	graceMax = 2 * callMax
)

// capture is one run of the command.
type capture struct {
	s       *session.Session
	o       *options
	root    *os.Root
	name    string
	began   time.Time
	secrets []string
	// parent ends when the command is interrupted.
	parent context.Context //nolint:containedctx // tells an interruption from the end of a call, for the text of errors
	slots  chan struct{}

	servers []*api.AgentMember
	nodes   []*api.NodeStub
	sum     summary
	// interrupted means that the capture did not run to its end.
	interrupted bool

	mu       sync.Mutex
	failures []failure
}

func newCapture(s *session.Session, o *options, root *os.Root, name string) *capture {
	c := &capture{s: s, o: o, root: root, name: name, began: time.Now(), slots: make(chan struct{}, callsMax)}
	if token := s.Token(); token != "" {
		c.secrets = append(c.secrets, token)
	}
	return c
}

// params are those of each read of the cluster.
func (c *capture) params(more ...string) url.Values {
	v := url.Values{}
	if c.o.stale {
		v.Set("stale", "true")
	}
	for i := 0; i+1 < len(more); i += 2 {
		v.Set(more[i], more[i+1])
	}
	return v
}

// everywhere are the parameters of a list of all namespaces, or of the one that the user named.
func (c *capture) everywhere(more ...string) url.Values {
	namespace := api.AllNamespaces
	if c.s.IsSet("namespace") || os.Getenv("NOMAD_NAMESPACE") != "" {
		namespace = c.s.Namespace()
	}
	return c.params(append(more, "namespace", namespace)...)
}

// run captures all. It fails if nothing can be captured.
func (c *capture) run(ctx context.Context) error {
	c.parent = ctx
	if err := c.choose(ctx); err != nil {
		return err
	}
	c.s.Printf("Starting debugger...\n\n  Servers: (%d) %s\n  Nodes: (%d) %s\n  Interval: %s\n  Duration: %s\n\n", len(c.servers), names(c.servers), len(c.nodes), ids(c.nodes), c.o.interval, c.o.duration)
	end, cancel := context.WithTimeout(ctx, c.o.duration)
	defer cancel()
	calls, stop := context.WithTimeout(ctx, c.o.duration+graceMax)
	defer stop()
	var g errgroup.Group
	do := func(f func()) {
		g.Go(func() error {
			f()
			return nil
		})
	}
	followed := 0
	for _, a := range c.agents() {
		do(func() { c.host(calls, a) })
		do(func() { c.profiles(calls, end, a) })
		if followed++; followed > followedMax {
			c.failed(ctx, a.dir+"/monitor.log", fault.New(fault.Exhausted, "more than %d logs are not followed at a time: name servers and nodes", followedMax))
		} else {
			do(func() { c.follow(end, a) })
		}
		do(func() { c.exports(calls, a) })
	}
	if len(c.o.topics) > 0 {
		do(func() { c.events(end) })
	}
	do(func() {
		c.cluster(calls)
		c.volumes(calls)
	})
	do(func() { c.intervals(calls, end) })
	_ = g.Wait()
	c.interrupted = ctx.Err() != nil
	return nil
}

// choose lists the servers and nodes to capture.
func (c *capture) choose(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*callMax)
	defer cancel()
	members, err := c.s.Members(ctx)
	if err != nil {
		return session.Failed("listing servers", err)
	}
	leader, _ := c.s.Leader(ctx) // without a leader there is the rest
	for _, m := range members.Members {
		if m != nil && wanted(c.o.servers, m, leader) {
			c.servers = append(c.servers, m)
		}
	}
	for _, name := range c.o.servers {
		if name != "all" && !slices.ContainsFunc(c.servers, func(m *api.AgentMember) bool { return wanted([]string{name}, m, leader) }) {
			return fault.New(fault.NotFound, "unknown server %.140q: nomad server members lists them", name)
		}
	}
	nodes, _, err := c.s.Nodes(ctx, rest.Query{Stale: c.o.stale})
	if err != nil {
		c.failed(ctx, "client/nodes", err) // the servers may be captured without rights on nodes
		return nil
	}
	for _, n := range nodes {
		if n != nil && (c.o.class == "" || n.NodeClass == c.o.class) && slices.ContainsFunc(c.o.nodes, func(id string) bool { return id == "all" || strings.HasPrefix(n.ID, id) }) {
			c.nodes = append(c.nodes, n)
		}
	}
	for _, id := range c.o.nodes {
		if id != "all" && !slices.ContainsFunc(c.nodes, func(n *api.NodeStub) bool { return strings.HasPrefix(n.ID, id) }) {
			return fault.New(fault.NotFound, "no node has an id that begins with %.40q and the class that is asked for", id)
		}
	}
	if n := c.o.maxNodes; n > 0 && len(c.nodes) > n {
		c.s.Warnf("%d nodes are not captured: -max-nodes is %d", len(c.nodes)-n, n)
		c.nodes = c.nodes[:n]
	}
	return nil
}

// wanted reports whether the names choose a server.
func wanted(names []string, m *api.AgentMember, leader string) bool {
	short, _, _ := strings.Cut(m.Name, ".")
	rpc := m.Tags["rpc_addr"] + ":" + m.Tags["port"]
	return slices.ContainsFunc(names, func(name string) bool {
		return name == "all" || name == m.Name || name == short || name == m.Tags["id"] || name == "leader" && rpc == leader
	})
}

func names(list []*api.AgentMember) string {
	out := make([]string, 0, len(list))
	for _, m := range list {
		out = append(out, m.Name)
	}
	return fmt.Sprint(out)
}

func ids(list []*api.NodeStub) string {
	out := make([]string, 0, len(list))
	for _, n := range list {
		out = append(out, n.ID[:min(8, len(n.ID))])
	}
	return fmt.Sprint(out)
}

// cluster captures what seldom changes.
func (c *capture) cluster(ctx context.Context) {
	flags, _ := json.MarshalIndent(map[string]any{
		"Duration": c.o.duration.String(), "Interval": c.o.interval.String(), "LogLevel": c.o.level, "Servers": c.o.servers, "Nodes": c.o.nodes,
		"NodeClass": c.o.class, "MaxNodes": c.o.maxNodes, "PprofDuration": c.o.profile.String(), "PprofInterval": c.o.profileEvery.String(), "EventTopics": c.o.topics,
	}, "", "  ")
	c.write(ctx, "cluster/cli-flags.json", append(flags, '\n'))
	_ = json.Unmarshal(c.save(ctx, "cluster/members.json", c.params(), "agent", "members"), &c.sum.members)
	c.save(ctx, "cluster/agent-self.json", c.params(), "agent", "self")
	_ = json.Unmarshal(c.save(ctx, "cluster/leader.json", c.params(), "status", "leader"), &c.sum.Leader)
	c.save(ctx, "cluster/regions.json", c.params(), "regions")
	c.save(ctx, "cluster/namespaces.json", c.params(), "namespaces")
	c.save(ctx, "cluster/node-pools.json", c.params(), "node", "pools")
	c.save(ctx, "cluster/scheduler-configuration.json", c.params(), "operator", "scheduler", "configuration")
	c.save(ctx, "cluster/autopilot-configuration.json", c.params(), "operator", "autopilot", "configuration")
}

// volumes captures the reports on volumes, with claims, attachments and timelines.
func (c *capture) volumes(ctx context.Context) {
	_ = json.Unmarshal(c.save(ctx, "volumes/doctor.json", c.everywhere(), "volumes", "doctor"), &c.sum.volumes)
	_ = json.Unmarshal(c.save(ctx, "volumes/plugins-doctor.json", c.params(), "plugins", "doctor"), &c.sum.pluginReport)
	c.save(ctx, "volumes/attachments.json", c.everywhere(), "volumes", "attachments")
	var list []*api.VolumeStub
	_ = json.Unmarshal(c.saveList(ctx, "volumes/volumes.json", c.everywhere("type", "csi"), "volumes"), &list)
	for i, v := range list {
		if v == nil {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if i >= volumesMax {
			c.failed(ctx, "volumes/more", fault.New(fault.TooLarge, "the details of %d volumes are left out: name a namespace", len(list)-i))
			return
		}
		name := "volumes/" + fileName(v.Namespace) + "/" + fileName(v.ID)
		c.save(ctx, name+".json", c.params("namespace", v.Namespace), "volume", "csi", v.ID)
		c.save(ctx, name+"-timeline.json", c.params("namespace", v.Namespace), "volume", "csi", v.ID, "timeline")
	}
}

// intervals captures the state of the cluster again and again.
func (c *capture) intervals(ctx, end context.Context) {
	tick := time.NewTicker(c.o.interval)
	defer tick.Stop()
	for i := 0; ; i++ {
		c.s.Printf("    Capture interval %04d\n", i)
		c.interval(ctx, fmt.Sprintf("interval/%04d/", i))
		select {
		case <-tick.C:
		case <-end.Done():
			return
		}
		if end.Err() != nil {
			return
		}
	}
}

func (c *capture) interval(ctx context.Context, dir string) {
	c.saveList(ctx, dir+"jobs.json", c.everywhere(), "jobs")
	c.saveList(ctx, dir+"allocations.json", c.everywhere(), "allocations")
	decodeInto(c.saveList(ctx, dir+"evaluations.json", c.everywhere(), "evaluations"), &c.sum.evals)
	c.saveList(ctx, dir+"deployments.json", c.everywhere(), "deployments")
	decodeInto(c.saveList(ctx, dir+"nodes.json", c.params(), "nodes"), &c.sum.nodes)
	decodeInto(c.saveList(ctx, dir+"csi-plugins.json", c.params("type", "csi"), "plugins"), &c.sum.plugins)
	c.saveList(ctx, dir+"csi-volumes.json", c.everywhere("type", "csi"), "volumes")
	c.save(ctx, dir+"metrics.json", nil, "metrics")
	c.save(ctx, dir+"operator-raft.json", c.params(), "operator", "raft", "configuration")
	c.save(ctx, dir+"operator-autopilot-health.json", c.params(), "operator", "autopilot", "health")
}

// decodeInto replaces a list of the summary by a newer one.
func decodeInto[T any](body []byte, into *[]T) {
	var list []T
	if body != nil && json.Unmarshal(body, &list) == nil {
		*into = list
	}
}
