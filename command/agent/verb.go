package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/command/agent/config"
)

// Command is the verb "agent".
func Command(version string) *cli.Command {
	return &cli.Command{
		Name:            "agent",
		Usage:           "Runs a server, a client, or both",
		HideHelpCommand: true,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dev", Usage: "server and client on loopback, raw_exec enabled, nothing kept"},
			&cli.StringSliceFlag{Name: "config", Usage: "file or directory to read; may be repeated, later ones win"},
			&cli.StringFlag{Name: "data-dir", Usage: "absolute directory that survives restarts"},
			&cli.StringFlag{Name: "state-dir", Usage: "directory of the client's state"},
			&cli.StringFlag{Name: "alloc-dir", Usage: "directory of allocations"},
			&cli.StringFlag{Name: "plugin-dir", Usage: "directory of task drivers and device plugins"},
			&cli.StringFlag{Name: "bind", Usage: "IP address to listen on"},
			&cli.StringFlag{Name: "region", Usage: "name of the region"},
			&cli.StringFlag{Name: "dc", Usage: "name of the datacenter"},
			&cli.StringFlag{Name: "node", Usage: "name of this node"},
			&cli.StringFlag{Name: "node-class", Usage: "class of this node"},
			&cli.StringFlag{Name: "node-pool", Usage: "pool of this node"},
			&cli.StringSliceFlag{Name: "meta", Usage: "key=value of this node; may be repeated"},
			&cli.StringFlag{Name: "network-interface", Usage: "interface whose address tasks get"},
			&cli.StringFlag{Name: "client-intro-token", Usage: "token of \"nomad node intro create\"; NOMAD_CLIENT_INTRO_TOKEN wins over it"},
			&cli.StringFlag{Name: "servers", Usage: "comma-separated RPC addresses of servers"},
			&cli.BoolFlag{Name: "server", Usage: "run a server"},
			&cli.BoolFlag{Name: "client", Usage: "run a client"},
			&cli.IntFlag{Name: "bootstrap-expect", Usage: "number of servers to wait for"},
			&cli.StringSliceFlag{Name: "join", Usage: "gossip address of a server to join at the start; may be repeated"},
			&cli.StringSliceFlag{Name: "retry-join", Usage: "like -join, and tried until it works; may be repeated"},
			&cli.IntFlag{Name: "retry-max", Usage: "how often -retry-join is tried; 0 means no limit"},
			&cli.DurationFlag{Name: "retry-interval", Usage: "time between tries of -retry-join"},
			&cli.BoolFlag{Name: "rejoin", Usage: "join again even after this server has left"},
			&cli.StringFlag{Name: "encrypt", Usage: "gossip key: 16, 24 or 32 bytes in base64"},
			&cli.BoolFlag{Name: "acl-enabled", Usage: "tokens decide what callers may do"},
			&cli.StringFlag{Name: "acl-replication-token", Usage: "secret of a management token of the authoritative region"},
			&cli.StringFlag{Name: "log-level", Usage: "TRACE, DEBUG, INFO, WARN or ERROR"},
			&cli.BoolFlag{Name: "log-json", Usage: "log in JSON"},
			&cli.BoolFlag{Name: "log-include-location", Usage: "log file and line"},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			hangups := make(chan os.Signal, 1) // first of all: an unhandled SIGHUP ends the process
			signal.Notify(hangups, syscall.SIGHUP)
			defer signal.Stop(hangups)
			cfg, err := configure(c)
			if err != nil {
				return fail(err)
			}
			cfg.Again = func() (*config.Config, error) { return configure(c) }
			switch err := Run(ctx, cfg, version, hangups); {
			case errors.Is(err, errAbrupt):
				return cli.Exit("", 1)
			case err != nil:
				return fail(err)
			}
			return nil
		},
	}
}

// fail returns one exit code for everything that keeps an agent from running.
func fail(err error) error {
	return cli.Exit(fmt.Sprintf("nomad agent: %v", err), 1)
}

// configure reads defaults, files, -dev and flags, in this order.
func configure(c *cli.Command) (*config.Config, error) {
	cfg := config.Default()
	if err := cfg.Load(c.StringSlice("config")...); err != nil {
		return nil, err
	}
	if c.Bool("dev") {
		cfg.SetDev()
	}
	for name, field := range map[string]*string{
		"data-dir": &cfg.DataDir, "state-dir": &cfg.Client.StateDir, "alloc-dir": &cfg.Client.AllocDir, "plugin-dir": &cfg.PluginDir,
		"bind": &cfg.BindAddr, "region": &cfg.Region, "dc": &cfg.Datacenter, "node": &cfg.Name,
		"node-class": &cfg.Client.NodeClass, "node-pool": &cfg.Client.NodePool,
		"network-interface": &cfg.Client.NetworkInterface, "log-level": &cfg.LogLevel,
		"acl-replication-token": &cfg.ACL.ReplicationToken,
	} {
		if c.IsSet(name) {
			*field = c.String(name)
		}
	}
	for name, field := range map[string]*bool{
		"server": &cfg.Server.Enabled, "client": &cfg.Client.Enabled, "acl-enabled": &cfg.ACL.Enabled,
		"log-json": &cfg.LogJSON, "log-include-location": &cfg.LogIncludeLocation,
	} {
		if c.IsSet(name) {
			*field = c.Bool(name)
		}
	}
	joins(c, cfg)
	if c.IsSet("bootstrap-expect") {
		cfg.Server.BootstrapExpect = int(c.Int("bootstrap-expect"))
	}
	if c.IsSet("servers") {
		cfg.Client.Servers = strings.Split(c.String("servers"), ",")
	}
	for _, pair := range c.StringSlice("meta") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("-meta %q is not key=value", pair)
		}
		if cfg.Client.Meta == nil {
			cfg.Client.Meta = map[string]string{}
		}
		cfg.Client.Meta[key] = value
	}
	cfg.Client.IntroToken = cmp.Or(os.Getenv("NOMAD_CLIENT_INTRO_TOKEN"), c.String("client-intro-token"))
	if err := absolute(cfg); err != nil {
		return nil, err
	}
	return cfg, cfg.Validate()
}

// joins reads the flags with the servers to join.
func joins(c *cli.Command, cfg *config.Config) {
	to := &cfg.Server.ServerJoin
	if cfg.Client.Enabled && !cfg.Server.Enabled {
		to = &cfg.Client.ServerJoin
	}
	to.StartJoin = append(to.StartJoin, c.StringSlice("join")...)
	to.RetryJoin = append(to.RetryJoin, c.StringSlice("retry-join")...)
	if c.IsSet("retry-max") {
		to.RetryMax = int(c.Int("retry-max"))
	}
	if c.IsSet("retry-interval") {
		to.RetryInterval = c.Duration("retry-interval")
	}
	if c.IsSet("rejoin") {
		cfg.Server.RejoinAfterLeave = c.Bool("rejoin")
	}
	if c.IsSet("encrypt") {
		cfg.Server.Encrypt = c.String("encrypt")
	}
}

// absolute completes what a user types relative on the command line.
func absolute(cfg *config.Config) error {
	if cfg.DataDir == "" || filepath.IsAbs(cfg.DataDir) {
		return nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("data_dir %q: %w", cfg.DataDir, err)
	}
	cfg.DataDir = filepath.Join(dir, cfg.DataDir)
	return nil
}
