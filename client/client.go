package client

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/artifacts"
	"github.com/open-nomad/open-nomad/client/checks"
	"github.com/open-nomad/open-nomad/client/devices"
	"github.com/open-nomad/open-nomad/client/dirquota"
	"github.com/open-nomad/open-nomad/client/dirs"
	"github.com/open-nomad/open-nomad/client/fingerprint"
	"github.com/open-nomad/open-nomad/client/hostvolumes"
	"github.com/open-nomad/open-nomad/client/networks"
	"github.com/open-nomad/open-nomad/client/sessions"
	"github.com/open-nomad/open-nomad/client/stats"
	"github.com/open-nomad/open-nomad/client/store"
	"github.com/open-nomad/open-nomad/client/templates"
	"github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/internal/slow"
	"github.com/open-nomad/open-nomad/internal/workgroup"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// Client is one node.
type Client struct {
	conf       Config
	log        hclog.Logger
	id, secret string
	// signed is the identity that the servers issued; nil for none.
	signed atomic.Pointer[string]
	// renewIdentity is set when the next heartbeat requests a new identity.
	renewIdentity atomic.Bool
	// intro is the introduction token; serveNode alone uses it after New.
	intro string

	db   *store.DB
	tree dirs.Tree
	// quota is how the sizes of ephemeral disks are enforced.
	quota   dirquota.Kind
	drivers map[string]*adopted
	watch   *fingerprint.Drivers
	devices *devices.Manager
	volumes *volumes.Service
	// hostVolumes are the volumes of the configuration and those that servers had this node make.
	hostVolumes *hostvolumes.Service
	// networks makes the networks of allocations.
	networks *networks.Service
	stats    *stats.Host
	checks   *checks.Prober
	// sessions run commands of users in tasks.
	sessions  *sessions.Table
	hostEnv   map[string]string
	artifacts *artifacts.Fetcher
	templates *templates.Program

	node    *record
	table   *table
	reports *reports
	// stateLost is set when the node has an identity and a new, empty database: it may have tasks and mounts without a record.
	stateLost bool
	// pruned is set when no unknown task runs. It is written before the loop of assignments, and by that loop.
	pruned bool
	// servers are those that were reported last, as they are on disk.
	servers atomic.Pointer[[]string]
	// rollback is the newest mark of a restore of the servers that the node received; serveNode alone uses it.
	rollback int64
	// sequence numbers reports, so that the servers can ignore those that arrive late.
	sequence sequence
	// voters are those that are asked when no leader is known.
	voters atomic.Pointer[api.Voters]
	// answered is when a server last replied to a heartbeat or registration, in [bootTime].
	answered atomic.Int64
	lease    lease
	files    files
	// meta is the dynamic metadata of the node.
	meta struct {
		sync.Mutex
		dynamic map[string]*string
	}
	// heardBefore is when an earlier process of the agent sent its last heartbeat that was answered, as far as that is noted, else
	// when this one began; heardNoted is set while there is a note, and is of who sends heartbeats.
	heardBefore int64
	heardNoted  bool
	// waits is what the start waits for.
	waits atomic.Pointer[string]
	// registered is closed when the servers know the node.
	registered chan struct{}
	// tried is closed when the disks were tried once or do not respond; disksTried closes it.
	tried      chan struct{}
	disksTried func()
	measured   measured
	// collect wakes the removal of ended allocations.
	collect chan struct{}
	// pages is full while as many pages of data of other nodes are in memory as may be.
	pages chan struct{}
}

// databaseFile is the database, in the state directory.
const databaseFile = "state.db"

// New builds the node: it opens the state in the state directory, and makes or reads the node's identity.
// Nothing runs before [Client.Run].
func New(conf Config) (*Client, error) {
	if err := conf.validate(); err != nil {
		return nil, err
	}
	if conf.RawExec.StateDir == "" {
		conf.RawExec.StateDir = filepath.Join(conf.StateDir, "raw_exec")
	}
	if conf.Docker != nil && conf.Docker.StateDir == "" {
		own := *conf.Docker
		own.StateDir, own.LeaseDir = filepath.Join(conf.StateDir, "docker"), conf.RawExec.StateDir
		conf.Docker = &own
	}
	conf.Artifacts.Dir = filepath.Join(conf.StateDir, "artifacts")
	if conf.Exec != nil && conf.Exec.StateDir == "" {
		own := *conf.Exec
		own.StateDir, own.LeaseDir = filepath.Join(conf.StateDir, "exec"), conf.RawExec.StateDir
		conf.Exec = &own
	}
	log := conf.Log.Named("client")
	done := slow.Begin(log, "read the identity of the node", conf.StateDir)
	id, secret, fresh, err := identity(conf.StateDir)
	if done(); err != nil {
		return nil, err
	}
	for _, name := range conf.unknownOptions() {
		log.Warn("nothing reads this client option", "option", name)
	}
	done = slow.Begin(log, "open the client state", filepath.Join(conf.StateDir, databaseFile))
	db, err := store.Open(filepath.Join(conf.StateDir, databaseFile), log)
	if done(); err != nil {
		return nil, err
	}
	c := &Client{
		conf: conf, log: log, id: id, secret: secret, db: db, tree: conf.tree(), drivers: conf.drivers(),
		hostEnv: conf.inherited(os.Environ()), node: newRecord(&api.Node{ID: id}), table: newTable(), reports: newReports(),
		artifacts:  artifacts.New(conf.Artifacts),
		rollback:   api.RollbackUnseen,
		stateLost:  !fresh && db.Fresh(),
		lease:      lease{born: bootTime(), hurry: make(chan struct{}, 1)},
		registered: make(chan struct{}), collect: make(chan struct{}, 1), pages: make(chan struct{}, pagesMax),
	}
	conf.Networks.NodeID, conf.Networks.Log = id, log.Named("networks")
	conf.Networks.CNI.RecordDir = filepath.Join(conf.StateDir, "cni")
	c.networks = networks.New(conf.Networks)
	c.sessions = sessions.New(log.Named("sessions"))
	c.tried = make(chan struct{})
	c.disksTried = sync.OnceFunc(func() { close(c.tried) })
	c.stats = stats.New(conf.AllocDir, c.computeMHz)
	c.checks = checks.New(checks.Config{Replace: c.replacer, Address: func() string { return c.node.present().Address() }, Jitter: jitter})
	c.templates = &templates.Program{
		Dir: filepath.Join(conf.StateDir, "templates"), Denied: conf.Templates.Denied, Wait: conf.Templates.Wait, Bounds: conf.Templates.Bounds, Calls: conf.Templates.Calls,
		Log: log.Named("templates"),
	}
	if err := c.prepare(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	conf.Servers.Handle(counted(conf.Telemetry.Metrics, c.Handlers())...)
	defer slow.Begin(log, "read the last heartbeat", conf.StateDir)()
	if jwt := c.readToken(identityFile); jwt != "" {
		c.signed.Store(&jwt)
	}
	c.intro = cmp.Or(conf.IntroToken, c.readToken(introFile))
	if err := c.readMetaFile(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	c.readServersFile()
	c.readVotersFile()
	c.readLeaseFile()
	c.readHeartbeatFile()
	return c, nil
}

// prepare makes the directories of the node, and reads what it knows of volumes.
func (c *Client) prepare() error {
	done := slow.Begin(c.log, "read the records of volumes", filepath.Join(c.conf.StateDir, "csi"))
	err := c.services()
	if done(); err != nil {
		return err
	}
	defer slow.Begin(c.log, "make the directories of tasks", c.conf.AllocDir+" and "+c.conf.RawExec.StateDir)()
	if err := c.tree.Prepare(); err != nil {
		return err
	}
	c.limitSizes()
	return errors.Join(os.MkdirAll(c.conf.RawExec.StateDir, 0o700), dirs.Apart(c.conf.RawExec.StateDir))
}

// services builds what the node is made of.
func (c *Client) services() (err error) {
	var list []driver.Driver
	for _, d := range c.drivers {
		list = append(list, d)
	}
	c.watch = fingerprint.NewDrivers(list, c.driverChanged, c.log)
	c.devices = devices.New(devices.Config{
		Plugins: c.conf.DevicePlugins, StatsInterval: c.conf.Telemetry.Interval, Changed: c.devicesChanged, NodeEvent: c.node.tell, Log: c.log,
	})
	conf := volumes.Config{
		StateDir: c.conf.StateDir, NodeID: c.ID, NodeSecret: c.credential, Servers: afterRegistration{c.conf.Servers, c.registered, c.credential},
		Journal:  c.db.Bucket("volumes"),
		Registry: c.db.Bucket("plugins"), Fences: c.db.Bucket("fences"), Updated: c.pluginsChanged,
		NodeEvent: c.node.tell, Log: c.log.Named("volumes"),
		Tasks: mountUsers{c}, Silence: c.silence, Promise: c.promise, Metrics: c.conf.Telemetry.Metrics,
	}
	c.hostVolumes, err = hostvolumes.New(hostvolumes.Config{
		Dir:       c.hostVolumesDir(),
		PluginDir: cmp.Or(c.conf.HostVolumePluginDir, filepath.Join(c.conf.StateDir, "host_volume_plugins")),
		Static:    c.conf.HostVolumes, Records: c.db.Bucket("host_volumes"), Changed: c.hostVolumesChanged, NodeEvent: c.node.tell,
		Log: c.log.Named("host_volumes"),
	})
	if err != nil {
		return err
	}
	if err := c.conf.volumeOptions(&conf); err != nil {
		return err
	}
	c.volumes, err = volumes.New(conf)
	return err
}

// ID is the id of the node.
func (c *Client) ID() string { return c.id }

// Node returns the node as it is now. It is read-only.
func (c *Client) Node() *api.Node { return c.node.present() }

// Registered is closed when the servers know the node.
func (c *Client) Registered() <-chan struct{} { return c.registered }

// Run works until ctx ends and returns nil then. Tasks and mounts stay as they are, except on a
// development node, which ends them first. It may be called once.
func (c *Client) Run(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	records, err := c.takeOver(ctx, life)
	switch {
	case errors.Is(err, errHangs): // and so would closing the database
		c.log.Warn("the agent ends though it has not started", "error", err)
		return nil
	case err != nil && ctx.Err() != nil:
		return c.db.Close()
	case err != nil:
		return errors.Join(err, c.db.Close())
	}
	work, endWork := context.WithCancel(life)
	defer endWork()
	var loops, working workgroup.Group
	begin := func(all *workgroup.Group, ctx context.Context, l loop) {
		all.Go(l.name, func() {
			if err := l.run(ctx); err != nil && ctx.Err() == nil {
				c.log.Error("loop ended", "loop", l.name, "error", err)
			}
		})
	}
	for _, l := range c.loops() {
		begin(&loops, life, l)
		if l.name == "volumes" { // mounts and tasks are adopted before the servers are asked
			c.restore(life, records)
		}
	}
	for _, l := range c.workLoops(life) {
		begin(&working, work, l)
	}
	<-ctx.Done()
	endWork()
	left := working.Wait()
	if c.conf.Dev {
		c.endAll(life)
	}
	end()
	if left = slices.Concat(left, loops.Wait(), c.table.wait()); len(left) > 0 {
		c.log.Warn("the agent ends though these have not: they hang", "left", left)
	}
	if c.conf.Dev {
		c.unmountLeftovers()
	}
	c.keepEnded(0)
	if left := c.files.end(); len(left) > 0 {
		c.log.Warn("files are not written at the end: the disk hangs", "left", left)
	}
	c.log.Info("client stopped", "allocations", c.table.len())
	return c.db.Close()
}

// loop is one of the loops of the node, for as long as it runs.
type loop struct {
	name string
	run  func(context.Context) error
}

// loops lists them in the order in which they begin.
func (c *Client) loops() []loop {
	return []loop{
		{"store", c.db.Run},
		{"volumes", c.volumes.Run},
		{"host volumes", c.hostVolumes.Run},
		{"drivers", c.watch.Run},
		{"devices", c.devices.Run},
		{"disks", c.watchDisks},
		{"node", c.serveNode},
		{"silence", c.watchSilence},
		{"leases", c.watchLeases},
		{"endDrain", c.endDrain},
		{"collect", c.collectEnded},
		{"measure", c.measure},
	}
}

// workLoops are the loops that end first: nothing new begins, and what ends then is not replaced, while a development
// node ends its allocations. Allocations live as long as life.
func (c *Client) workLoops(life context.Context) []loop {
	return []loop{
		{"assignments", func(ctx context.Context) error { return c.followAssignments(ctx, life) }},
		{"reports", c.sendReports},
		{"sessions", c.sessions.Run},
	}
}

// jitter returns a random duration below its argument.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}
