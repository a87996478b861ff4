package agent

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/plugins/csi/hostpath"
)

// Hostpath is the verb "csi-hostpath": the embedded CSI driver as a process of its own.
func Hostpath() *cli.Command {
	return &cli.Command{
		Name:            "csi-hostpath",
		Usage:           "Runs the embedded CSI driver: volumes are directories and files of this host",
		HideHelpCommand: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "endpoint", Usage: "unix socket to serve on", Sources: cli.EnvVars("CSI_ENDPOINT")},
			&cli.StringFlag{Name: "state-dir", Usage: "directory that keeps the volumes; required"},
			&cli.StringFlag{Name: "node-id", Usage: "the driver's id of this node; the host's name when empty"},
			&cli.StringFlag{Name: "mode", Value: "monolith", Usage: "node, controller or monolith"},
			&cli.BoolFlag{Name: "attach", Usage: "volumes must be attached to a node before they are mounted there"},
			&cli.StringSliceFlag{Name: "topology", Usage: "key=value of this node; may be repeated"},
			&cli.StringFlag{Name: "password", Usage: "password that the secrets of calls must have", Sources: cli.EnvVars("CSI_PASSWORD")},
			&cli.IntFlag{Name: "max-volumes", Usage: "volumes per node; 0 means no limit"},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.String("state-dir") == "" {
				return cli.Exit("nomad csi-hostpath: -state-dir is missing: name the directory that keeps the volumes\nFor additional help try 'nomad csi-hostpath -help'", 1)
			}
			ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
			defer stop()
			topology := map[string]string{}
			for _, pair := range c.StringSlice("topology") {
				key, value, ok := strings.Cut(pair, "=")
				if !ok {
					return cli.Exit(fmt.Sprintf("nomad csi-hostpath: -topology %q is not key=value", pair), 1)
				}
				topology[key] = value
			}
			name, _ := os.Hostname()
			err := hostpath.Run(ctx, hostpath.Config{
				Endpoint: c.String("endpoint"), StateDir: c.String("state-dir"), NodeID: cmp.Or(c.String("node-id"), name),
				Mode: c.String("mode"), Attach: c.Bool("attach"), Topology: topology, MaxVolumes: int64(c.Int("max-volumes")),
				Password: c.String("password"),
			})
			if err != nil {
				return cli.Exit(fmt.Sprintf("nomad csi-hostpath: %v", err), 1)
			}
			return nil
		},
	}
}
