package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/link"
	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/command/agent/logfile"
	"github.com/open-nomad/open-nomad/internal/inspect"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/internal/slow"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
	"github.com/open-nomad/open-nomad/nomad/ui"
)

// gcPercent is the default of GOGC for the agent: its heap grows to 1.5 times the live objects.
const gcPercent = 50

// shutdownWait limits how long the agent waits for open HTTP requests when it ends.
const shutdownWait = 2 * time.Second

// agent is a running agent: at least one of server and node is set.
type agent struct {
	cfg     *config.Config
	version string
	log     hclog.Logger
	dirs    layout
	http    net.Listener
	server  *nomad.Server
	link    *link.Link
	node    *client.Client
	tls     security
	audit   *auditLog
	// metrics records what this agent does.
	metrics *metrics.Recorder
	// tasks serves the API on the sockets of tasks.
	tasks http.Handler
	// inspect lets operators look into the agent.
	inspect *inspect.Agent
	// abrupt is set when a signal ended the agent without leaving.
	abrupt atomic.Bool
}

// errAbrupt is the outcome of an agent that a signal ended without leave; it is no failure, but service
// managers see by its exit code that the agent did not leave.
var errAbrupt = errors.New("ended by a signal without leaving")

// Run starts an agent and works until a signal or a failure ends it. It reads its configuration again at each of the
// hangups.
func Run(ctx context.Context, cfg *config.Config, version string, hangups <-chan os.Signal) error {
	log, closer, err := newLogger(cfg)
	if err != nil {
		return err
	}
	defer func() { _ = closer.Close() }()
	for _, w := range cfg.Warnings {
		log.Warn(w)
	}
	done := slow.Begin(log, "make the data directories", cfg.DataDir)
	dirs, err := makeDirs(cfg)
	if done(); err != nil {
		return err
	}
	if at := closed(dirs.alloc); cfg.Client.Enabled && at != "" {
		log.Warn("tasks of other users than the agent's cannot start: a directory on the way to theirs cannot be entered", "dir", at)
	}
	if dirs.temporary != "" {
		defer removeTemporary(dirs.temporary, log)
	}
	if cfg.Name == "" {
		cfg.Name, _ = os.Hostname()
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	a := &agent{cfg: cfg, version: version, log: log, dirs: dirs}
	a.inspect = inspect.New(inspect.Config{ID: cfg.Name, Log: log, LogFile: logfile.Path(cfg.LogFile), Debug: cfg.EnableDebug || cfg.ACL.Enabled})
	if a.tls, err = secure(cfg); err != nil {
		return err
	}
	a.tls.warn(cfg, log)
	a.audit, err = openAudit(cfg.Audit, dirs.data, log.Named("audit"))
	defer a.audit.close()
	if err != nil {
		return err
	}
	if err := a.openMetrics(); err != nil {
		return err
	}
	closeTraces, err := a.openTraces()
	if err != nil {
		return err
	}
	defer closeTraces()
	if err := a.build(); err != nil {
		return errors.Join(err, a.abandon())
	}
	ctx, stop := a.untilSignal(ctx)
	defer stop()
	defer a.onHangup(ctx, hangups)()
	id := ""
	if a.node != nil {
		id = a.node.ID()
	}
	fmt.Print(banner(cfg, version, a.http.Addr().String(), a.rpcAddress(), id))
	if err := a.run(ctx); err != nil {
		return err
	}
	if a.abrupt.Load() {
		return errAbrupt
	}
	return nil
}

// build makes the parts in order: the HTTP port before all that takes long, so that a port in use is reported at once.
func (a *agent) build() (err error) {
	drivers, err := a.plugins()
	if err != nil {
		return err
	}
	if a.http, err = net.Listen("tcp", net.JoinHostPort(cmp.Or(a.cfg.Addresses.HTTP, a.cfg.BindAddr), strconv.Itoa(a.cfg.Ports.HTTP))); err != nil {
		return fault.New(fault.Unavailable, "HTTP port: %w", err)
	}
	if a.cfg.Server.Enabled {
		done := slow.Begin(a.log, "open the state of the server", a.dirs.server)
		conf := a.serverConfig()
		conf.Inspect = a.inspect
		if conf.KeyProviders, conf.NoKeyFiles, err = keyProviders(a.cfg.Keyrings, a.dirs.server); err == nil {
			a.server, err = nomad.New(conf)
		}
		if done(); err != nil {
			return err
		}
	}
	if !a.cfg.Client.Enabled {
		return nil
	}
	dialer, servers, err := a.way()
	if err != nil {
		return err
	}
	a.link = link.New(link.Config{Servers: servers, Dialer: dialer, Log: a.log.Named("link")})
	conf := a.clientConfig()
	conf.RawExec, conf.Exec, conf.Docker, conf.Mock = drivers.rawExec, &drivers.exec, &drivers.docker, drivers.mock
	conf.Drivers, conf.DevicePlugins = a.programs(drivers), drivers.devices
	conf.ServeTask, conf.Inspect = a.serveTask, a.inspect
	if a.node, err = client.New(conf); err != nil {
		return err
	}
	forTasks := a.httpConfig()
	forTasks.Authenticated, forTasks.Extra = true, nil
	a.tasks = httpapi.New(forTasks)
	return nil
}

// way is how the client half reaches servers: its own agent's server, or those that are configured.
func (a *agent) way() (transport.Dialer, []string, error) {
	servers := append(append(append([]string{}, a.cfg.Client.Servers...), a.cfg.Client.ServerJoin.RetryJoin...), a.cfg.Client.ServerJoin.StartJoin...)
	for i, s := range servers {
		if _, _, err := net.SplitHostPort(s); err != nil {
			servers[i] = net.JoinHostPort(s, "4647")
		}
	}
	if a.server != nil {
		return a.server.Dialer(), append([]string{a.server.Address()}, servers...), nil
	}
	if len(servers) == 0 {
		return transport.Dialer{}, nil, fault.New(fault.Invalid, "client has no servers: set client { servers = [\"host:4647\"] } or -servers")
	}
	dialer, err := a.tls.way(a.log)
	return dialer, servers, err
}

// abandon closes what was opened when the start failed.
func (a *agent) abandon() error {
	var errs []error
	if a.http != nil {
		errs = append(errs, a.http.Close())
	}
	if a.server != nil {
		errs = append(errs, a.server.Close())
	}
	return errors.Join(errs...)
}

// run works until ctx ends. The client half ends before the server that it reports to, and the HTTP
// server ends first of all.
func (a *agent) run(ctx context.Context) error {
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx))
	defer endServing()
	servers, serving := errgroup.WithContext(serving)
	if a.server != nil {
		servers.Go(func() error { return a.server.Run(serving) })
	}
	if a.link != nil {
		servers.Go(func() error { return a.link.Run(serving) })
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	go func() {
		<-serving.Done()
		fail(context.Cause(serving))
	}()
	upper, ctx := errgroup.WithContext(ctx)
	if a.node != nil {
		upper.Go(func() error { return a.node.Run(ctx) })
	}
	upper.Go(func() error { return a.serveHTTP(ctx) })
	upper.Go(func() error { a.metrics.Run(ctx); return nil })
	err := upper.Wait()
	endServing()
	err = errors.Join(err, servers.Wait())
	if a.link != nil {
		err = errors.Join(err, a.link.Close())
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (a *agent) serveHTTP(ctx context.Context) error {
	c := a.httpConfig()
	if u := a.cfg.UI; u.Enabled {
		page, err := ui.New(ui.Config{
			Label: u.Label.Text, LabelBackground: u.Label.Background, LabelText: u.Label.TextColor, Policy: u.Policy.Sources(),
		})
		if err != nil {
			return fmt.Errorf("web user interface: %w", err)
		}
		c.UI = page
	}
	server := httpapi.Server(httpapi.New(c))
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	ended := make(chan error, 1)
	server.ErrorLog = complaints{a.log.Named("http")}.logger()
	limits := httpapi.Limits{Metrics: a.metrics, ConnsPerClient: a.cfg.Limits.HTTPConnsPerClient, Handshake: a.cfg.Limits.HTTPSHandshake}
	guarded := limits.Guard(server, a.http, a.tls.http != nil, a.log.Named("http"))
	go func() { ended <- server.Serve(a.tls.listener(guarded)) }()
	select {
	case err := <-ended:
		return fmt.Errorf("HTTP server: %w", err)
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownWait)
	defer cancel()
	if err := server.Shutdown(bounded); err != nil {
		_ = server.Close()
	}
	<-ended
	return nil
}

// serveTask serves the API on the socket of a task until the listener is closed, and ends its connections then. Most tasks
// never use their socket: the server is made for the first connection.
func (a *agent) serveTask(l net.Listener, allocID, task string) {
	go func() {
		first, err := l.Accept()
		for err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(time.Second) // the process has too many open files
			first, err = l.Accept()
		}
		server, log := httpapi.Server(a.tasks), a.log.Named("http")
		server.ErrorLog = complaints{log}.logger()
		limits := httpapi.Limits{ConnsPerClient: a.cfg.Limits.HTTPConnsPerClient}
		l := httpapi.TaskListener(&continued{l, first}, allocID, task)
		_ = server.Serve(limits.Guard(server, l, false, log))
		_ = server.Close()
	}()
}

// continued is a listener of which one connection was accepted before. It is for one goroutine.
type continued struct {
	net.Listener
	first net.Conn
}

// Accept implements [net.Listener].
func (c *continued) Accept() (net.Conn, error) {
	if conn := c.first; conn != nil {
		c.first = nil
		return conn, nil
	}
	return c.Listener.Accept()
}

func (a *agent) httpConfig() httpapi.Config {
	c := httpapi.Config{
		Name: a.cfg.Name, Region: a.cfg.Region, Datacenter: a.cfg.Datacenter, Log: a.log.Named("http"),
		Self: a.self, Metrics: a.metrics, Inspect: a.inspect, Health: a.health, Reload: a.reload, OtherRegions: true, Headers: a.cfg.HTTPHeaders,
		AccessControl: a.cfg.ACL.Enabled, Audit: a.auditConfig(),
	}
	if a.cfg.EnableDebug {
		c.Extra = map[string]http.Handler{"/debug/pprof/": profiles()}
	}
	if a.node != nil {
		c.LocalNodeID = a.node.ID
		c.ServerAddresses = a.link.Servers
		c.SetServerAddresses = a.setServers
	}
	if a.server != nil {
		c.Servers, c.Node, c.Schedulers = a.server.Caller(), a.server.Node, a.server.Schedulers()
		c.CPU = a.server.CPU()
		return c
	}
	c.Servers, c.Node = a.link, a.ownNode
	return c
}

// setServers replaces the servers that the node asks.
func (a *agent) setServers(addresses []string) error {
	full := make([]string, 0, len(addresses))
	for _, s := range addresses {
		if _, _, err := net.SplitHostPort(s); err != nil {
			s = net.JoinHostPort(s, "4647")
		}
		full = append(full, s)
	}
	a.link.SetServers(full)
	return nil
}

// ownNode reaches the node of an agent without a server, and others through the servers.
func (a *agent) ownNode(id string) (wire.Caller, error) {
	if id != a.node.ID() || a.cfg.ACL.Enabled { // the servers know what tokens permit
		return wire.Through(a.link, "", id), nil
	}
	return wire.Direct(a.node.Handlers()...), nil
}

func (a *agent) rpcAddress() string {
	if a.server != nil {
		return a.server.Address()
	}
	return ""
}

// health returns the health of the server and the client.
func (a *agent) health(context.Context) *api.AgentHealthResponse {
	out := &api.AgentHealthResponse{}
	if a.server != nil {
		out.Server = &api.AgentHealth{Ok: true, Message: "ok"}
		if err := a.server.Health(); err != nil {
			out.Server = &api.AgentHealth{Message: err.Error()}
		}
	}
	if a.node != nil {
		out.Client = &api.AgentHealth{Ok: true, Message: "ok"}
		select {
		case <-a.node.Registered():
		default:
			out.Client = &api.AgentHealth{Message: "the node is not registered yet"}
			if waits := a.node.Waits(); waits != "" {
				out.Client.Message += ": it has to " + waits
			}
		}
	}
	return out
}
